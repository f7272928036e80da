//! Checks of claims.

use serde_json::{Map, Value};

use super::{Claims, JwtError, UnsecuredValidation, Validation};

/// Checks the claims of a signed token as Kafka's broker does.
pub(super) fn check_secured(all: Map<String, Value>, rules: &Validation) -> Result<Claims, JwtError> {
    check_audience(&all, &rules.audience)?;
    if let Some(expected) = &rules.issuer {
        match all.get("iss") {
            Some(Value::String(issuer)) if issuer == expected => {}
            Some(_) => return refuse(format!("the claim `iss` is not the expected issuer {expected}")),
            None => return refuse(format!("the claim `iss` is missing; expected is {expected}")),
        }
    }
    let claims = read(all, &rules.scope_claim, &rules.sub_claim)?;
    if claims.issued_at_ms.is_none() {
        return refuse("the claim `iat` is missing");
    }
    if rules.now_ms.saturating_sub(rules.skew_ms) >= claims.expires_at_ms {
        return refuse("the token has expired");
    }
    if let Some(not_before_ms) = time(&claims.all, "nbf")?
        && rules.now_ms.saturating_add(rules.skew_ms) < not_before_ms
    {
        return refuse("the token is not valid yet (claim `nbf`)");
    }
    Ok(claims)
}

/// A token for other recipients is not one for us, even if none is configured.
fn check_audience(all: &Map<String, Value>, expected: &[String]) -> Result<(), JwtError> {
    let audience: Vec<&str> = match all.get("aud") {
        None | Some(Value::Null) if expected.is_empty() => return Ok(()),
        None | Some(Value::Null) => return refuse("the claim `aud` is missing"),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        Some(_) => return refuse("the claim `aud` is neither a text nor a list"),
    };
    if expected.is_empty() {
        return refuse(
            "the token has a claim `aud`; set sasl.oauthbearer.expected.audience to the audience of this broker",
        );
    }
    if audience.iter().any(|one| expected.iter().any(|other| other == one)) {
        Ok(())
    } else {
        refuse(format!(
            "the claim `aud` has none of the expected audiences {}",
            expected.join(", ")
        ))
    }
}

/// Reads the claims that every token needs.
pub(super) fn read(all: Map<String, Value>, scope_claim: &str, sub_claim: &str) -> Result<Claims, JwtError> {
    let scope = match all.get(scope_claim) {
        // The whole text is one scope, even if it has spaces.
        Some(Value::String(scope)) => vec![text(scope_claim, scope)?],
        Some(Value::Array(scopes)) => unique_scopes(scope_claim, scopes)?,
        _ => Vec::new(),
    };
    let expires_at_ms = time(&all, "exp")?.ok_or_else(|| JwtError::Claim("the claim `exp` is missing".to_owned()))?;
    let principal = match all.get(sub_claim) {
        Some(Value::String(principal)) => text(sub_claim, principal)?,
        Some(_) => return refuse(format!("the claim `{sub_claim}` is not a text")),
        None => return refuse(format!("the claim `{sub_claim}` is missing")),
    };
    Ok(Claims {
        principal,
        scope,
        expires_at_ms,
        issued_at_ms: time(&all, "iat")?,
        all,
    })
}

fn unique_scopes(claim: &str, scopes: &[Value]) -> Result<Vec<String>, JwtError> {
    let mut unique: Vec<String> = Vec::new();
    for scope in scopes {
        let Value::String(scope) = scope else {
            return refuse(format!("the claim `{claim}` has a value that is not a text"));
        };
        unique.push(text(claim, scope)?);
    }
    let mut sorted: Vec<&String> = unique.iter().collect();
    sorted.sort();
    if sorted
        .windows(2)
        .any(|pair| matches!(pair, [one, other] if one == other))
    {
        return refuse(format!("the claim `{claim}` has a value twice"));
    }
    Ok(unique)
}

/// A text without the blanks around it, which must not be all of it.
fn text(claim: &str, value: &str) -> Result<String, JwtError> {
    match value.trim() {
        "" => refuse(format!("the claim `{claim}` is blank")),
        text => Ok(text.to_owned()),
    }
}

/// A time of a claim in milliseconds.
fn time(all: &Map<String, Value>, claim: &str) -> Result<Option<i64>, JwtError> {
    let seconds = match all.get(claim) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_f64(),
    };
    match seconds {
        // The conversion saturates.
        Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1000.0).round() as i64)),
        Some(_) => refuse(format!("the claim `{claim}` is negative")),
        None => refuse(format!("the claim `{claim}` is not a number")),
    }
}

/// Checks the claims of a token without a signature as Kafka's validator for tests does.
pub(super) fn check_unsecured(all: Map<String, Value>, rules: &UnsecuredValidation) -> Result<Claims, JwtError> {
    let principal = match all.get(&rules.principal_claim) {
        Some(Value::String(principal)) if !principal.trim().is_empty() => principal.clone(),
        _ => return refuse(format!("no principal name in the claim `{}`", rules.principal_claim)),
    };
    let expires_at_ms = time(&all, "exp")?.ok_or_else(|| JwtError::Claim("the claim `exp` is missing".to_owned()))?;
    let issued_at_ms = time(&all, "iat")?;
    if issued_at_ms.is_some_and(|issued| issued > rules.now_ms.saturating_add(rules.skew_ms)) {
        return refuse("the token was issued in the future (claim `iat`)");
    }
    if rules.now_ms.saturating_sub(rules.skew_ms) >= expires_at_ms {
        return refuse("the token has expired");
    }
    if issued_at_ms.is_some_and(|issued| expires_at_ms <= issued) {
        return refuse("the token expires before it was issued");
    }
    let scope = lenient_scope(all.get(&rules.scope_claim));
    if rules.required_scope.iter().any(|required| !scope.contains(required)) {
        return Err(JwtError::InsufficientScope {
            scope: format!("[{}]", rules.required_scope.join(", ")),
        });
    }
    Ok(Claims {
        principal,
        scope,
        expires_at_ms,
        issued_at_ms,
        all,
    })
}

/// Scopes of an unsecured token: blank ones and repetitions are dropped.
fn lenient_scope(claim: Option<&Value>) -> Vec<String> {
    let mut scopes: Vec<String> = match claim {
        Some(Value::String(scope)) => vec![scope.trim().to_owned()],
        Some(Value::Array(scopes)) => scopes
            .iter()
            .filter_map(Value::as_str)
            .map(|scope| scope.trim().to_owned())
            .collect(),
        _ => Vec::new(),
    };
    scopes.retain(|scope| !scope.is_empty());
    scopes.sort();
    scopes.dedup();
    scopes
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, JwtError> {
    Err(JwtError::Claim(problem.into()))
}
