# cause: A program that ends at once.
# expect: too-short
# mentions: too short
program() { exec true; }
