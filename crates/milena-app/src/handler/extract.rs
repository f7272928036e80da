//! Extractors: the arguments of handlers.

use std::{any::type_name, future::Future, marker::PhantomData, ops::Deref};

use bytes::Bytes;
use milena_client::consumer::{
    ConsumerRecord,
    deserialize::{Deserializer, Json, Plain},
};
use serde::de::DeserializeOwned;

use super::{
    Cx, Fault, Opened, Opening,
    cx::{ArgumentError, MissingState, States},
};
use crate::route::Delivery;

#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not an extractor",
    note = "write `Event<{Self}>` for a value in JSON, which needs `#[derive(serde::Deserialize)]` on it, or `Value<{Self}>` for \
            text, numbers and bytes as Kafka's own serializers write them, or `State<{Self}>` for what was given to `App::state`",
    note = "others are `Key<T>`, `Headers`, `Raw`, `Cx`, and an `Option` of any of them"
)]
/// An argument of a handler. A decode error is a [`Fault::poison`]: the record becomes a dead letter with its bytes
/// unchanged.
pub trait Extract: Sized + Send {
    fn extract(cx: &Cx) -> Result<Self, Fault>;

    /// Checked at start, so that a missing state is not found with the first record.
    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        let _ = available;
        Ok(())
    }

    /// Whether the argument has work around the call, such as a transaction. Then [`open`](Self::open) is called instead
    /// of [`extract`](Self::extract), after all other arguments are read. A handler can have one such argument.
    const IS_SCOPED: bool = false;

    /// Prepares the argument for a call of one record, or of a batch. It leaves a [`CallScope`](super::CallScope) with
    /// [`Opening::set_scope`], which ends after the call.
    ///
    /// The future may be dropped at any time, as the call may.
    fn open(opening: &mut Opening<'_>) -> impl Future<Output = Result<Opened<Self>, Fault>> + Send {
        let first = opening.first();
        async { Self::extract(first?).map(Opened::Ready) }
    }
}

const NO_TRANSACTION: &str = "its offsets are to be stored with its effects, but it takes no transaction; take one as an \
                              argument, or change the delivery";

/// Why scoped arguments cannot be inside of others; shown by the compiler.
pub(super) const NOT_INSIDE: &str =
    "a transaction cannot be inside of an Option, a Result or a Batch: take it as an argument of its own";

/// Reads an argument that is not scoped; `None` is one that is.
pub(super) fn extract_plain<T: Extract>(cx: &Cx) -> Result<Option<T>, Fault> {
    if T::IS_SCOPED {
        return Ok(None);
    }
    T::extract(cx).map(Some)
}

/// States that the application offers to a handler, and how it delivers.
#[derive(Debug)]
pub struct Available<'a> {
    pub(crate) states: &'a States,
    pub(crate) delivery: Delivery,
}

impl Available<'_> {
    /// A state of the application.
    pub fn state<S: 'static>(&self) -> Option<&S> {
        self.states.get()
    }

    /// Delivery guarantee of the handler.
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Checks that a handler whose offsets are stored with its effects takes a transaction.
    pub(super) fn check_scope(&self, is_scoped: bool) -> Result<(), ArgumentError> {
        if is_scoped || self.delivery != Delivery::StoredOffsets {
            return Ok(());
        }
        Err(ArgumentError::Refused(NO_TRANSACTION.into()))
    }
}

/// The value, decoded as JSON. A tombstone is `null`, which an `Option` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<T>(pub T);

impl<T: DeserializeOwned + Send> Extract for Event<T> {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let value = cx.record.as_ref().value_as(&Json).map_err(Fault::poison)?;
        Ok(Self(value))
    }
}

/// The value in the format of Kafka's own serializers: text, numbers, bytes. An `Option` accepts tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<T>(pub T);

impl<T: Send> Extract for Value<T>
where
    Plain: Deserializer<T>,
{
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let value = cx.record.as_ref().value_as(&Plain).map_err(Fault::poison)?;
        Ok(Self(value))
    }
}

/// The key in the format of Kafka's own serializers. An `Option` accepts records without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<T>(pub T);

impl<T: Send> Extract for Key<T>
where
    Plain: Deserializer<T>,
{
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let key = cx.record.as_ref().key_as(&Plain).map_err(Fault::poison)?;
        Ok(Self(key))
    }
}

/// The value, decoded by a custom deserializer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<T, D> {
    pub value: T,
    by: PhantomData<D>,
}

impl<T: Send, D: Deserializer<T> + Default + Send> Extract for Decoded<T, D> {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let value = cx.record.as_ref().value_as(&D::default()).map_err(Fault::poison)?;
        Ok(Self { value, by: PhantomData })
    }
}

/// The record itself.
#[derive(Debug, Clone)]
pub struct Raw(pub ConsumerRecord);

impl Deref for Raw {
    type Target = ConsumerRecord;

    fn deref(&self) -> &ConsumerRecord {
        &self.0
    }
}

impl Extract for Raw {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        Ok(Self(cx.record.clone()))
    }
}

/// The headers, in order; names may repeat and need not be text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(Bytes, Option<Bytes>)>);

impl Headers {
    /// Value of the last header with this name.
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        let mut headers = self.0.iter().rev();
        let (_, value) = headers.find(|(key, _)| key == name.as_bytes())?;
        value.as_deref()
    }
}

impl Extract for Headers {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let headers = cx.record.headers();
        let headers = headers.map(|header| {
            let value = header.value.map(Bytes::copy_from_slice);
            (Bytes::copy_from_slice(header.key), value)
        });
        Ok(Self(headers.collect()))
    }
}

/// A state of the application, added with `.state(…)` and cloned for each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<S>(pub S);

impl<S: Clone + Send + Sync + 'static> Extract for State<S> {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let state = cx.state::<S>().map_err(Fault::fatal)?;
        Ok(Self(state.clone()))
    }

    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        let found = available.state::<S>();
        let missing = || ArgumentError::State(MissingState { name: type_name::<S>() });
        found.map(drop).ok_or_else(missing)
    }
}

impl Extract for Cx {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        Ok(cx.clone())
    }
}

impl<T: Extract> Extract for Option<T> {
    /// `None` if the argument cannot be decoded, for handlers that handle that case.
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        const { assert!(!T::IS_SCOPED, "{}", NOT_INSIDE) };
        Ok(T::extract(cx).ok())
    }

    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        T::check(available)
    }
}

impl<T: Extract> Extract for Result<T, Fault> {
    /// The error if the argument cannot be decoded, for handlers that handle that case.
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        const { assert!(!T::IS_SCOPED, "{}", NOT_INSIDE) };
        Ok(T::extract(cx))
    }

    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        T::check(available)
    }
}
