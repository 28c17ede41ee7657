//! Integer arithmetic in values: `(4*1024)`, `$ncpus*2`.

const DEPTH_MAX: u32 = 32;

/// The value of an expression of `+ - * / %` and parentheses, with the precedence of bc(1); division rounds towards
/// zero. `number` reads an operand.
pub(crate) fn evaluate(
    text: &str,
    number: &dyn Fn(&str) -> Result<u64, String>,
) -> Result<i128, String> {
    let mut parser = Parser { rest: text, number, depth: 0 };
    let value = parser.sum().map_err(|why| format!("'{text}': {why}"))?;
    match parser.rest.trim_start() {
        "" => Ok(value),
        rest => Err(format!("'{text}': unexpected '{rest}'; remove it")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    number: &'a dyn Fn(&str) -> Result<u64, String>,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<i128, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.next_of(&['+', '-']) {
            let right = self.product()?;
            let value =
                if operator == '+' { left.checked_add(right) } else { left.checked_sub(right) };
            left = value.ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut left = self.operand()?;
        while let Some(operator) = self.next_of(&['*', '/', '%']) {
            let right = self.operand()?;
            if operator != '*' && right == 0 {
                return Err("division by zero; use another divisor".to_string());
            }
            let value = match operator {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = value.ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<i128, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("too many parentheses and signs; write the result".to_string());
        }
        let value = match self.next_of(&['(', '-']) {
            Some('(') => {
                let value = self.sum()?;
                self.next_of(&[')']).ok_or("missing ); add it")?;
                value
            }
            Some(_) => self.operand()?.checked_neg().ok_or_else(too_large)?,
            None => {
                self.rest = self.rest.trim_start();
                let is_end = |c: char| !c.is_ascii_alphanumeric();
                let end = self.rest.find(is_end).unwrap_or(self.rest.len());
                let (operand, rest) = self.rest.split_at(end);
                self.rest = rest;
                i128::from((self.number)(operand)?)
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// The next character if it is one of `expected`.
    fn next_of(&mut self, expected: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let next = rest.chars().next().filter(|c| expected.contains(c))?;
        self.rest = &rest[next.len_utf8()..];
        Some(next)
    }
}

fn too_large() -> String {
    "the result exceeds 2^127; use smaller numbers".to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<i128, String> {
        evaluate(text, &|n| n.parse().map_err(|_| format!("'{n}' is no number; use one")))
    }

    #[test]
    fn precedence_is_that_of_bc() {
        for (text, expected) in [
            ("2+3*4", 14),
            ("(2+3)*4", 20),
            ("7/2*2", 6),
            ("10-4-3", 3),
            ("17%5", 2),
            ("-3+5", 2),
            ("--2", 2),
            (" ( 1 + 2 ) ", 3),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, part) in [
            ("1/0", "division by zero"),
            ("(1+2", "missing )"),
            ("1 2", "unexpected '2'"),
            ("1+", "'' is no number"),
            ("99999999999999*99999999999999*99999999999999", "2^127"),
            (&"(".repeat(100_000), "too many parentheses"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_evaluated_or_refused(text in "[0-9k()+*/% -]{0,40}") {
            let _ = value(&text);
        }
    }
}
