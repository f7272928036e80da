//! The Rust code of one message: its structs, how they are read and how they are written.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    definition::{Kind, Versions},
    model::{Field, Message, Struct, Type},
};

/// The whole file of a message; `response` is that of a request.
pub(super) fn file(message: &Message, response: Option<&Message>) -> Result<String> {
    let mut code = format!("//! {}\n\n", describe(message));
    code.push_str(&imports(message));
    for item in &message.structs {
        code.push_str(&declaration(message, item));
        code.push_str(&default_impl(message, item));
        let _ = write!(
            code,
            "impl {} {{\n{}\n{}}}\n\n",
            item.name,
            read_function(message, item)?,
            write_function(message, item)
        );
    }
    code.push_str(&trait_impls(message, response)?);
    if message.kind == Kind::Response {
        code.push_str(&error_visitors(message));
    }
    Ok(code)
}

fn describe(message: &Message) -> String {
    let Versions { min, max } = message.versions;
    let mut text = if min == max {
        format!("`{}`, version {min}", message.name)
    } else {
        format!("`{}`, versions {min} to {max}", message.name)
    };
    if message.unstable {
        let _ = write!(text, " ({max} is not stable yet)");
    }
    match message.flexible {
        Versions::NONE => text.push_str(", never flexible."),
        flexible if flexible.min == min => text.push_str(", flexible."),
        flexible => {
            let _ = write!(text, ", flexible since {}.", flexible.min);
        }
    }
    text
}

fn imports(message: &Message) -> String {
    let fields = || message.structs.iter().flat_map(|item| &item.fields);
    let uses = |wanted: &[Type]| {
        fields().any(|field| match &field.ty {
            Type::Array(element) => wanted.contains(element),
            ty => wanted.contains(ty),
        })
    };
    let mut external = String::new();
    if uses(&[Type::Bytes, Type::Records]) {
        external.push_str("use bytes::Bytes;\n");
    }
    if uses(&[Type::String]) {
        external.push_str("use bytestring::ByteString;\n");
    }
    if !external.is_empty() {
        external.push('\n');
    }
    let mut own = String::new();
    if uses(&[Type::Uuid]) {
        own.push_str("Uuid, ");
    }
    if matches!(message.kind, Kind::Request | Kind::Response) {
        own.push_str("api::ApiKey, ");
    }
    own.push_str("decode::{DecodeError, Reader}, encode::{EncodeError, Encoder, Segments, Sink, Size}, ");
    if message.kind == Kind::Request {
        own.push_str("errors::ErrorCode, ");
    }
    own.push_str(match message.kind {
        Kind::Request => "message::{Message, Request, VersionRange}",
        Kind::Response => "message::{Message, Response, VersionRange}",
        _ => "message::{Message, VersionRange}",
    });
    if !message.flexible.is_empty() {
        own.push_str(", tags::UnknownTags");
    }
    format!("{external}use crate::{{{own}}};\n\n")
}

fn declaration(message: &Message, item: &Struct) -> String {
    let derives = if has_plain_default(item) {
        "Debug, Clone, PartialEq, Default"
    } else {
        "Debug, Clone, PartialEq"
    };
    let mut code = format!("#[derive({derives})]\npub struct {} {{\n", item.name);
    for field in &item.fields {
        if let Some(doc) = field_doc(message, field) {
            let _ = writeln!(code, "/// {doc}");
        }
        let _ = writeln!(code, "pub {}: {},", ident(field), field_type(field));
    }
    if !message.flexible.is_empty() {
        code.push_str("pub unknown_tags: UnknownTags,\n");
    }
    code.push_str("}\n\n");
    code
}

/// Documentation of a field beyond its name and type: the versions in which it exists and is nullable.
fn field_doc(message: &Message, field: &Field) -> Option<String> {
    let mut facts = vec![];
    if field.versions != message.versions {
        facts.push(range_text(field.versions, message.versions));
    }
    if let Some(tag) = field.tag {
        facts.push(format!("tag {tag}"));
    }
    if !field.nullable.is_empty() && field.nullable != field.versions {
        facts.push(format!("nullable in {}", range_text(field.nullable, message.versions)));
    }
    if facts.is_empty() {
        return None;
    }
    let mut text = facts.join(", ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text.push('.');
    Some(text)
}

fn range_text(versions: Versions, within: Versions) -> String {
    match versions {
        Versions { min, max } if min == max => format!("version {min}"),
        Versions { min, max } if max == within.max => format!("versions {min}+"),
        Versions { min, max } => format!("versions {min} to {max}"),
    }
}

fn default_impl(message: &Message, item: &Struct) -> String {
    if has_plain_default(item) {
        return String::new();
    }
    let mut code = format!("impl Default for {} {{ fn default() -> Self {{ Self {{\n", item.name);
    for field in &item.fields {
        let _ = writeln!(code, "{}: {},", ident(field), default_value(field));
    }
    if !message.flexible.is_empty() {
        code.push_str("unknown_tags: UnknownTags::default(),\n");
    }
    code.push_str("} } }\n\n");
    code
}

fn has_plain_default(item: &Struct) -> bool {
    item.fields.iter().all(|field| {
        let plain = match &field.default {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(value) => value.as_i64() == Some(0),
            Value::String(text) => text.is_empty() || text == "empty",
            _ => false,
        };
        // A derived default of an option is null, whereas Kafka's may be empty.
        plain && (field.nullable.is_empty() == (field.default != Value::Null))
    })
}

fn default_value(field: &Field) -> String {
    let value = match (&field.default, &field.ty) {
        (Value::Null, _) => return "None".to_owned(),
        (Value::Bool(value), _) => value.to_string(),
        (Value::Number(value), Type::F64) => format!("{value}.0"),
        (Value::Number(value), _) if value.as_i64() == Some(i64::MAX) => "i64::MAX".to_owned(),
        (Value::Number(value), _) if value.as_i64() == Some(i32::MAX.into()) => "i32::MAX".to_owned(),
        (Value::Number(value), _) => value.to_string(),
        (Value::String(text), Type::String) if !text.is_empty() => format!("ByteString::from_static({text:?})"),
        _ => "Default::default()".to_owned(),
    };
    if field.nullable.is_empty() {
        value
    } else {
        format!("Some({value})")
    }
}

fn read_function(message: &Message, item: &Struct) -> Result<String> {
    let mut body = String::new();
    let mut known_tags = String::new();
    for field in &item.fields {
        let value = read_value(message, field)?;
        let guard = condition(field.versions, message.versions);
        if field.tagged.is_empty() {
            let statement = format!("value.{} = {value};", ident(field));
            body.push_str(&match guard {
                Some(guard) => format!("if {guard} {{ {statement} }}\n"),
                None => format!("{statement}\n"),
            });
        } else {
            ensure!(
                field.tagged == field.versions,
                "{} is tagged in some versions only",
                field.name
            );
            let tag = field.tag.unwrap_or_default();
            let flexible = condition(field.versions, message.flexible);
            let guard = flexible.map(|guard| format!("if {guard}")).unwrap_or_default();
            let _ = writeln!(known_tags, "{tag} {guard} => value.{} = {value},", ident(field));
        }
    }
    if !message.flexible.is_empty() {
        let known = if known_tags.is_empty() {
            "|_, _| Ok(false)".to_owned()
        } else {
            format!("|tag, r| {{ match tag {{ {known_tags} _ => return Ok(false) }} Ok(true) }}")
        };
        let statement = format!("value.unknown_tags = r.tags({known})?;");
        body.push_str(&match condition(message.flexible, message.versions) {
            Some(_) => format!("if flexible {{ {statement} }}\n"),
            None => format!("{statement}\n"),
        });
    }
    let locals = locals(message, &body, "r");
    Ok(format!(
        "fn read_fields(r: &mut Reader<'_>) -> Result<Self, DecodeError> {{\n{locals}let mut value = Self::default();\n{body}Ok(value)\n}}\n"
    ))
}

fn read_value(message: &Message, field: &Field) -> Result<String> {
    let name = &field.name;
    let flexible = flexible(message, field);
    let plain = match &field.ty {
        Type::Array(element) => {
            let smallest = message.smallest(element)?;
            let read = read_element(element, &flexible, name);
            format!("r.array({flexible}, {name:?}, {smallest}, {read})?")
        }
        Type::Struct(inner) => format!("{inner}::read_fields(r)?"),
        Type::Bytes | Type::Records => format!("r.bytes({flexible}, {name:?})?"),
        Type::String => format!("r.string({flexible}, {name:?})?"),
        primitive => format!("r.{}({name:?})?", method(primitive)),
    };
    if field.nullable.is_empty() {
        return Ok(plain);
    }
    let nullable = match &field.ty {
        Type::Struct(inner) => format!("r.nullable_struct({name:?}, {inner}::read_fields)?"),
        _ => plain.replacen("r.", "r.nullable_", 1),
    };
    Ok(match condition(field.nullable, field.versions) {
        None => nullable,
        Some(guard) => format!("if {guard} {{ {nullable} }} else {{ Some({plain}) }}"),
    })
}

fn read_element(ty: &Type, flexible: &str, name: &str) -> String {
    match ty {
        Type::Struct(inner) => format!("{inner}::read_fields"),
        Type::String => format!("|r| r.string({flexible}, {name:?})"),
        Type::Bytes => format!("|r| r.bytes({flexible}, {name:?})"),
        primitive => format!("|r| r.{}({name:?})", method(primitive)),
    }
}

fn write_function(message: &Message, item: &Struct) -> String {
    let mut body = String::new();
    let mut known_tags = String::new();
    let mut known_count = vec![];
    // Tags must ascend on the wire, in any order of the definition; plain fields keep theirs.
    let mut fields: Vec<&Field> = item.fields.iter().collect();
    fields.sort_by_key(|field| field.tag);
    for field in fields {
        let guard = condition(field.versions, message.versions);
        let refuse = (!field.ignorable).then(|| format!("return Err(e.not_in_version({:?}));", field.name));
        if field.tagged.is_empty() {
            let write = write_value(message, field);
            body.push_str(&match (guard, refuse) {
                (None, _) => write,
                (Some(guard), None) => format!("if {guard} {{ {write} }}\n"),
                (Some(guard), Some(refuse)) => {
                    format!("if {guard} {{ {write} }} else if {} {{ {refuse} }}\n", is_set(field))
                }
            });
        } else {
            if let (Some(lacking), Some(refuse)) = (inverse(field.versions, message.versions), refuse) {
                let _ = writeln!(body, "if {lacking} && {} {{ {refuse} }}", is_set(field));
            }
            let set = match condition(field.versions, message.flexible) {
                Some(guard) => format!("{guard} && {}", is_set(field)),
                None => is_set(field),
            };
            let write = write_value(message, field);
            let tag = field.tag.unwrap_or_default();
            let _ = writeln!(
                known_tags,
                "if {set} {{ let size = e.size_of(|e| {{ {write} Ok(()) }})?; e.tag({tag}, size); {write} }}"
            );
            known_count.push(format!("u32::from({set})"));
        }
    }
    if !message.flexible.is_empty() {
        let count = if known_count.is_empty() {
            "0".to_owned()
        } else {
            known_count.join(" + ")
        };
        let tags =
            format!("e.tag_count({count}, &self.unknown_tags);\n{known_tags}e.unknown_tags(&self.unknown_tags);\n");
        body.push_str(&match condition(message.flexible, message.versions) {
            Some(_) => format!(
                "if flexible {{ {tags} }} else if !self.unknown_tags.is_empty() {{ return Err(e.not_in_version(\"unknown_tags\")); }}\n"
            ),
            None => tags,
        });
    }
    let locals = locals(message, &body, "e");
    format!(
        "fn write_fields<S: Sink>(&self, e: &mut Encoder<S>) -> Result<(), EncodeError> {{\n{locals}{body}Ok(())\n}}\n"
    )
}

fn write_value(message: &Message, field: &Field) -> String {
    let place = format!("self.{}", ident(field));
    if field.nullable.is_empty() {
        return write_present(message, field, &place, "");
    }
    let flexible = flexible(message, field);
    let null = match field.ty {
        Type::String => format!("e.null_string({flexible})"),
        Type::Struct(_) => "e.i8(-1)".to_owned(),
        _ => format!("e.null({flexible})"),
    };
    let marker = if matches!(field.ty, Type::Struct(_)) {
        "e.i8(1); "
    } else {
        ""
    };
    let present = write_present(message, field, "value", marker);
    let none = match condition(field.nullable, field.versions) {
        None => format!("None => {null},"),
        Some(guard) => {
            format!(
                "None if {guard} => {null}, None => return Err(e.null_not_allowed({:?})),",
                field.name
            )
        }
    };
    format!("match &{place} {{ Some(value) => {{ {present} }} {none} }}\n")
}

fn write_present(message: &Message, field: &Field, place: &str, marker: &str) -> String {
    let name = &field.name;
    let flexible = flexible(message, field);
    let borrowed = if place == "value" {
        place.to_owned()
    } else {
        format!("&{place}")
    };
    match &field.ty {
        Type::Struct(_) => format!("{marker}{place}.write_fields(e)?;\n"),
        Type::String => format!("e.string({flexible}, {borrowed}, {name:?})?;\n"),
        Type::Bytes => format!("e.bytes({flexible}, {borrowed}, {name:?})?;\n"),
        Type::Records => format!("e.records({flexible}, {borrowed}, {name:?})?;\n"),
        Type::Array(element) => {
            let write = match &**element {
                Type::Struct(_) => "|e, value| value.write_fields(e)".to_owned(),
                Type::String => format!("|e, value| e.string({flexible}, value, {name:?})"),
                Type::Bytes => format!("|e, value| e.bytes({flexible}, value, {name:?})"),
                primitive => format!("|e, value| {{ e.{}(*value); Ok(()) }}", method(primitive)),
            };
            format!("e.array({flexible}, {borrowed}, {name:?}, {write})?;\n")
        }
        primitive => format!("e.{}({place});\n", method(primitive)),
    }
}

/// Whether a field differs from its default, which a version without it cannot express.
fn is_set(field: &Field) -> String {
    let place = format!("self.{}", ident(field));
    if field.default == Value::Null {
        return format!("{place}.is_some()");
    }
    if !field.nullable.is_empty() {
        return format!("{place}.as_ref().is_none_or(|value| !value.is_empty())");
    }
    match &field.ty {
        Type::Bool if field.default == Value::Bool(true) => format!("!{place}"),
        Type::Bool => place,
        Type::Uuid => format!("!{place}.is_zero()"),
        Type::Array(_) | Type::Bytes | Type::Records => format!("!{place}.is_empty()"),
        Type::String if field.default == "" => format!("!{place}.is_empty()"),
        Type::String => format!("{place} != {}", field.default),
        Type::Struct(name) => format!("{place} != {name}::default()"),
        _ => format!("{place} != {}", default_value(field)),
    }
}

/// The field with the throttle time of a client.
const THROTTLE_TIME: &str = "throttle_time_ms";

fn trait_impls(message: &Message, response: Option<&Message>) -> Result<String> {
    let name = &message.name;
    let Versions { min, max } = message.versions;
    let flexible = if message.flexible.is_empty() {
        "None".to_owned()
    } else {
        format!("Some({})", message.flexible.min)
    };
    let mut code = format!(
        "impl Message for {name} {{\n\
            const NAME: &'static str = {name:?};\n\
            const VERSIONS: VersionRange = VersionRange::new({min}, {max});\n\
            const FLEXIBLE_SINCE: Option<i16> = {flexible};\n\n\
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{ Self::read_fields(reader) }}\n\n\
            fn measure(&self, encoder: &mut Encoder<Size>) -> Result<(), EncodeError> {{ self.write_fields(encoder) }}\n\n\
            fn write(&self, encoder: &mut Encoder<Segments>) -> Result<(), EncodeError> {{ self.write_fields(encoder) }}\n\
        }}\n"
    );
    if let Some(api) = name.strip_suffix("Request").filter(|_| message.kind == Kind::Request) {
        let response = response.with_context(|| format!("{name} has no response"))?;
        let _ = write!(
            code,
            "\nimpl Request for {name} {{ const KEY: ApiKey = ApiKey::{api}; type Response = super::{api}Response;\n\n{} }}\n",
            error_response(api, response)
        );
    }
    if let Some(api) = name.strip_suffix("Response").filter(|_| message.kind == Kind::Response) {
        let setter = if root_field(message, THROTTLE_TIME).is_some() {
            format!(
                "\n\nfn set_{THROTTLE_TIME}(&mut self, {THROTTLE_TIME}: i32) {{ self.{THROTTLE_TIME} = {THROTTLE_TIME}; }}\n"
            )
        } else {
            String::new()
        };
        let _ = write!(
            code,
            "\nimpl Response for {name} {{ const KEY: ApiKey = ApiKey::{api};{setter}{} }}\n",
            message
                .structs
                .first()
                .map(|root| error_visitor(message, root))
                .unwrap_or_default()
        );
    }
    Ok(code)
}

/// The field that reports an error for the whole request.
const ERROR_CODE: &str = "error_code";

/// APIs whose error response needs more than the error at the top.
const WITH_MORE_THAN_ERROR_CODE: [&str; 1] = ["InitProducerId"];

/// `error_response` of a request: generated if every version of the response has an error at the top, else a call of the
/// function that `src/error_responses` must have for the API.
fn error_response(api: &str, response: &Message) -> String {
    let at_top = root_field(response, ERROR_CODE).is_some_and(|field| field.versions == response.versions);
    let (version, body) = if at_top && !WITH_MORE_THAN_ERROR_CODE.contains(&api) {
        let body = format!("Some(super::{api}Response {{ {ERROR_CODE}: error.code(), ..Default::default() }})");
        ("_version", body)
    } else {
        let module = response.module();
        let function = module.trim_end_matches("_response");
        (
            "version",
            format!("crate::error_responses::{function}(self, version, error)"),
        )
    };
    format!("fn error_response(&self, {version}: i16, error: ErrorCode) -> Option<Self::Response> {{ {body} }}\n")
}

/// `for_each_error` of the structs inside a response; that of the response itself is part of its trait.
fn error_visitors(message: &Message) -> String {
    let mut code = String::new();
    for item in message.structs.iter().skip(1).filter(|item| has_errors(message, item)) {
        let _ = write!(code, "\nimpl {} {{ {} }}\n", item.name, error_visitor(message, item));
    }
    code
}

fn error_visitor(message: &Message, item: &Struct) -> String {
    if !has_errors(message, item) {
        return String::new();
    }
    let mut body = String::new();
    for field in item.fields.iter().filter(|field| reports_errors(message, field)) {
        let place = format!("self.{}", ident(field));
        let _ = match (&field.ty, field.nullable.is_empty()) {
            (Type::I16, _) => writeln!(body, "if {place} != 0 {{ report({place}); }}"),
            (Type::Array(_), true) => writeln!(body, "for item in &{place} {{ item.for_each_error(report); }}"),
            (_, true) => writeln!(body, "{place}.for_each_error(report);"),
            (Type::Array(_), false) => {
                writeln!(
                    body,
                    "for item in {place}.iter().flatten() {{ item.for_each_error(report); }}"
                )
            }
            (_, false) => writeln!(body, "if let Some(item) = &{place} {{ item.for_each_error(report); }}"),
        };
    }
    format!("\n\nfn for_each_error(&self, report: &mut dyn FnMut(i16)) {{ {body} }}\n")
}

fn has_errors(message: &Message, item: &Struct) -> bool {
    item.fields.iter().any(|field| reports_errors(message, field))
}

/// Whether a field is an error code, or has some inside.
fn reports_errors(message: &Message, field: &Field) -> bool {
    let inner = match &field.ty {
        Type::I16 => return field.name.ends_with(ERROR_CODE),
        Type::Struct(name) => name,
        Type::Array(element) => match &**element {
            Type::Struct(name) => name,
            _ => return false,
        },
        _ => return false,
    };
    let inner = message.structs.iter().find(|item| item.name == *inner);
    inner.is_some_and(|item| has_errors(message, item))
}

/// A field of the message itself, not of a struct inside it.
fn root_field<'a>(message: &'a Message, name: &str) -> Option<&'a Field> {
    let root = message.structs.iter().find(|item| item.name == message.name)?;
    root.fields.iter().find(|field| field.name == name)
}

/// The locals that a generated body uses.
fn locals(message: &Message, body: &str, cursor: &str) -> String {
    let mut code = String::new();
    let uses_flexible = body.contains("flexible");
    if uses_flexible || uses_version(body) {
        let _ = writeln!(code, "let version = {cursor}.version();");
    }
    if uses_flexible {
        let _ = writeln!(code, "let flexible = version >= {};", message.flexible.min);
    }
    code
}

/// Whether the local `version` is meant somewhere, and not a field of that name.
fn uses_version(body: &str) -> bool {
    ["if version ", "&version", "if !(", "&& version ", "(version "]
        .iter()
        .any(|use_| body.contains(use_))
}

/// The test that a version is in `versions`, given that it is in `within`; `None` if it always is.
pub(super) fn condition(versions: Versions, within: Versions) -> Option<String> {
    if versions.covers(within) {
        return None;
    }
    Some(match versions.intersect(within) {
        Versions { min, max } if min == max => format!("version == {min}"),
        Versions { min, max } if max == within.max => format!("version >= {min}"),
        Versions { min, max } if min == within.min => format!("version <= {max}"),
        Versions { min, max } => format!("({min}..={max}).contains(&version)"),
    })
}

/// The test that a version is not in `versions`; `None` if it always is in it.
fn inverse(versions: Versions, within: Versions) -> Option<String> {
    let text = condition(versions, within)?;
    Some(match text.split_once(' ') {
        Some((version, rest)) if rest.starts_with("==") => format!("{version} != {}", &rest[3..]),
        Some((version, rest)) if rest.starts_with(">=") => format!("{version} < {}", &rest[3..]),
        Some((version, rest)) if rest.starts_with("<=") => format!("{version} > {}", &rest[3..]),
        _ => format!("!{text}"),
    })
}

fn flexible(message: &Message, field: &Field) -> String {
    match condition(field.flexible, message.versions) {
        _ if field.flexible.is_empty() => "false".to_owned(),
        None => "true".to_owned(),
        Some(_) => "flexible".to_owned(),
    }
}

fn field_type(field: &Field) -> String {
    let plain = rust_type(&field.ty);
    if field.nullable.is_empty() {
        plain
    } else {
        format!("Option<{plain}>")
    }
}

fn rust_type(ty: &Type) -> String {
    match ty {
        Type::Uuid => "Uuid".to_owned(),
        Type::String => "ByteString".to_owned(),
        Type::Bytes | Type::Records => "Bytes".to_owned(),
        Type::Struct(name) => name.clone(),
        Type::Array(element) => format!("Vec<{}>", rust_type(element)),
        primitive => method(primitive).to_owned(),
    }
}

/// The name that a type of fixed size has in Rust, in `Reader` and in `Encoder`.
fn method(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::I8 => "i8",
        Type::I16 => "i16",
        Type::U16 => "u16",
        Type::I32 => "i32",
        Type::I64 => "i64",
        Type::F64 => "f64",
        Type::Uuid => "uuid",
        _ => unreachable!("{} has no fixed size", rust_type(ty)),
    }
}

pub(super) fn ident(field: &Field) -> String {
    match field.name.as_str() {
        "type" | "match" => format!("r#{}", field.name),
        name => name.to_owned(),
    }
}
