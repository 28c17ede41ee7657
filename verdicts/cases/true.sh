# cause: A program that ends at once.
# expect: too-short
program() { exec true; }
