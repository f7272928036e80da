//! The token of a client, shared by all its connections and replaced before it expires.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use milena_machines::{
    Random,
    token_refresh::{RETRY_MS, TokenLifetime},
};
use tokio::{
    runtime::Handle,
    sync::Mutex as RequestLock,
    time::{sleep, timeout},
};

use crate::{
    auth::{Token, TokenError},
    config::OAuthConfig,
    io::{Io, wall_ms},
};

/// Limit of one request to the provider.
const FETCH_MAX: Duration = Duration::from_secs(30);
/// A token with less time than this is not worth a log-in.
const LEFT_MS_MIN: i64 = 2_000;

#[derive(Debug)]
pub(super) struct Tokens {
    io: Io,
    oauth: OAuthConfig,
    current: Mutex<Option<Arc<Token>>>,
    /// Held while a token is requested, so that there is one request at a time. True once the task that replaces the
    /// token runs.
    requests: RequestLock<bool>,
}

impl Tokens {
    pub(super) fn new(io: Io, oauth: OAuthConfig) -> Arc<Self> {
        Arc::new(Self {
            io,
            oauth,
            current: Mutex::default(),
            requests: RequestLock::default(),
        })
    }

    /// Returns the token, which is requested if there is none or if it expires soon.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<Token>, TokenError> {
        self.matching(|_| true).await
    }

    /// Returns a token for the renewal of a session that used this one. It is the same one while it has most of its life
    /// before it; otherwise the session would end with it.
    pub(super) async fn newer_than(self: &Arc<Self>, used: &Arc<Token>) -> Result<Arc<Token>, TokenError> {
        self.matching(|token| !Arc::ptr_eq(token, used) || !is_old(token)).await
    }

    /// Returns the present token if it is good enough, or else a new one.
    async fn matching(self: &Arc<Self>, is_good: impl Fn(&Arc<Token>) -> bool) -> Result<Arc<Token>, TokenError> {
        let present = || {
            self.present()
                .filter(|token| left_ms(token) > LEFT_MS_MIN && is_good(token))
        };
        if let Some(token) = present() {
            return Ok(token);
        }
        let mut is_refreshing = self.requests.lock().await;
        // Another connection may have requested it meanwhile.
        if let Some(token) = present() {
            return Ok(token);
        }
        let token = self.replace().await?;
        if !*is_refreshing {
            *is_refreshing = true;
            self.io.spawn(refresh(Arc::downgrade(self)));
        }
        Ok(token)
    }

    async fn replace(&self) -> Result<Arc<Token>, TokenError> {
        let token = Arc::new(self.fetch().await?);
        *self.lock() = Some(Arc::clone(&token));
        Ok(token)
    }

    fn present(&self) -> Option<Arc<Token>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Token>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a token on a thread of its own, because the provider's code may run for long.
    async fn fetch(&self) -> Result<Token, TokenError> {
        let (provider, runtime) = (Arc::clone(&self.oauth.provider), Handle::current());
        let fetching = tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                let limited = timeout(FETCH_MAX, provider.token()).await;
                limited.unwrap_or_else(|_| {
                    let limit = FETCH_MAX.as_secs();
                    Err(TokenError::Unavailable(format!(
                        "the token provider did not return within {limit} s"
                    )))
                })
            })
        });
        // A provider that blocks its thread cannot be stopped; the client does not wait for it.
        let fetched = timeout(FETCH_MAX + Duration::from_secs(1), fetching).await;
        let unavailable = |text: &str| TokenError::Unavailable(text.to_owned());
        let token = fetched
            .map_err(|_| unavailable("the token provider blocks its thread"))?
            .map_err(|_| unavailable("the token provider panicked"))??;
        if left_ms(&token) <= 0 {
            return Err(TokenError::Refused(
                "the token provider returned an expired token".to_owned(),
            ));
        }
        Ok(token)
    }

    /// Replaces the token, unless a connection has done so since the last call. Returns the time until the next call.
    async fn refresh_once(&self, known: &mut Option<Arc<Token>>, random: &mut Random) -> Duration {
        let _request = self.requests.lock().await;
        let present = self.present();
        let is_known = match (&present, &*known) {
            (Some(present), Some(known)) => Arc::ptr_eq(present, known),
            _ => false,
        };
        let replaced = match present {
            Some(present) if !is_known => Ok(present),
            _ => self.replace().await,
        };
        match replaced {
            Ok(token) => {
                let wait = self.refresh_after(&token, random);
                *known = Some(token);
                wait
            }
            Err(error) => {
                tracing::warn!(
                    event = "token_not_refreshed",
                    %error,
                    "the token cannot be replaced: {error}; the present one stays in use, next attempt in {RETRY_MS} ms"
                );
                Duration::from_millis(RETRY_MS.unsigned_abs())
            }
        }
    }

    /// The time until the next request.
    fn refresh_after(&self, token: &Token, random: &mut Random) -> Duration {
        let now_ms = wall_ms();
        let lifetime = TokenLifetime {
            issued_at_ms: token.issued_at_ms.unwrap_or(now_ms),
            expires_at_ms: token.expires_at_ms,
        };
        let at_ms = self.oauth.refresh.refresh_at_ms(lifetime, now_ms, random);
        Duration::from_millis(u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0))
    }
}

/// Replaces the token before it expires, until the client ends.
async fn refresh(tokens: Weak<Tokens>) {
    let mut random = Random::new(RandomState::new().hash_one(wall_ms()));
    let mut known = None;
    loop {
        let Some(tokens_now) = tokens.upgrade() else { return };
        let wait = tokens_now.refresh_once(&mut known, &mut random).await;
        drop(tokens_now);
        sleep(wait).await;
    }
}

fn left_ms(token: &Token) -> i64 {
    token.expires_at_ms.saturating_sub(wall_ms())
}

/// Whether less than a fifth of its life is left.
fn is_old(token: &Token) -> bool {
    let Some(issued_at_ms) = token.issued_at_ms else {
        return left_ms(token) < 60_000;
    };
    let life_ms = token.expires_at_ms.saturating_sub(issued_at_ms);
    left_ms(token) < life_ms / 5
}
