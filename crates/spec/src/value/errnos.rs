//! Names of errors in `ignore_error`.

/// Generic error numbers of Linux (include/uapi/asm-generic/errno-base.h and errno.h).
const NAMES: &str = "EPERM=1 ENOENT=2 EINTR=4 EIO=5 ENXIO=6 EBADF=9 EAGAIN=11 EWOULDBLOCK=11 ENOMEM=12 EACCES=13 \
    EFAULT=14 EBUSY=16 ENODEV=19 EINVAL=22 EFBIG=27 ENOSPC=28 EROFS=30 ENODATA=61 ETIME=62 ENOLINK=67 \
    EREMOTEIO=121 EDQUOT=122 ENOMEDIUM=123 EBADE=52 EILSEQ=84 EOPNOTSUPP=95 ETIMEDOUT=110 ESTALE=116 \
    ECANCELED=125";

pub(crate) fn errno(text: &str) -> Result<i32, String> {
    let mut names = NAMES.split(' ').filter_map(|name| name.split_once('='));
    let number = names.find(|(name, _)| *name == text).map_or(text, |(_, number)| number);
    match number.parse::<i32>() {
        Ok(number) if (1..=4095).contains(&number) => Ok(number),
        _ => Err(format!(
            "unknown error '{text}'; use a name such as EIO, or a number from 1 to 4095"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(errno("EIO"), Ok(5));
        assert_eq!(errno("28"), Ok(28));
        assert!(errno("EWHAT").is_err());
        assert!(errno("0").is_err());
        assert!(errno("-5").is_err());
    }
}
