//! Tokens from a file that another program keeps up to date.

use std::path::PathBuf;

use milena_security::{Secret, jwt};

use super::{Token, TokenError, TokenFuture, TokenProvider};

/// Largest accepted token.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// The claims of a JWT that the client reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JwtClaimNames {
    /// `sasl.oauthbearer.scope.claim.name`
    pub(crate) scope: String,
    /// `sasl.oauthbearer.sub.claim.name`
    pub(crate) subject: String,
}

impl JwtClaimNames {
    /// A token with the lifetime and principal of its claims. `origin` names where it came from.
    pub(super) fn read(&self, jwt: &str, origin: &str) -> Result<Token, TokenError> {
        let jwt = jwt.trim();
        let claims = jwt::inspect(jwt, &self.scope, &self.subject)
            .map_err(|error| TokenError::Refused(format!("the token of {origin} cannot be used: {error}")))?;
        let mut token = Token::new(jwt, claims.expires_at_ms).principal(claims.principal);
        token.issued_at_ms = claims.issued_at_ms;
        Ok(token)
    }
}

/// A file with one JWT, read again for each refresh.
#[derive(Debug)]
pub(crate) struct JwtFile {
    pub(crate) path: PathBuf,
    pub(crate) claims: JwtClaimNames,
}

impl TokenProvider for JwtFile {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async {
            let text = read_text(&self.path, TOKEN_BYTES_MAX)?;
            self.claims.read(text.expose(), &self.path.display().to_string())
        })
    }
}

/// The text of a small file.
pub(super) fn read_text(path: &PathBuf, bytes_max: u64) -> Result<Secret, TokenError> {
    let unreadable = |problem: String| TokenError::Refused(format!("cannot read {}: {problem}", path.display()));
    let size = std::fs::metadata(path)
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    if size > bytes_max {
        return Err(unreadable(format!("it has {size} bytes, more than {bytes_max}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(Secret::from(text))
}
