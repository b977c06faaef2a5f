//! The shapes of compound fields: a record is its fields one after the other, a choice is a number and the fields of the
//! variant it picks. Each is declared in one line, and its encode, its decode and its row in the table follow from that.

use crate::wire::{Bad, Reader, Wire};

/// Writes one field, in the form named or that of its type.
macro_rules! put {
    ($value:expr, $out:ident) => {
        $crate::wire::Wire::put($value, $out)
    };
    ($value:expr, $out:ident, $form:ty) => {
        <$form>::put($value, $out)
    };
}

/// Reads one field, and says which it was if it cannot.
macro_rules! take {
    ($from:ident, $field:ident) => {
        $crate::wire::Wire::take($from).map_err(|bad| bad.within(stringify!($field)))?
    };
    ($from:ident, $field:ident, $form:ty) => {
        <$form>::take($from).map_err(|bad| bad.within(stringify!($field)))?
    };
    (unnamed $from:ident) => {
        $crate::wire::Wire::take($from)?
    };
    (unnamed $from:ident, $form:ty) => {
        <$form>::take($from)?
    };
}

/// A struct: its fields one after the other, each `name` or `name: Form`.
macro_rules! record {
    ($type:ident $(<$generic:ident>)? { $($field:ident $(: $form:ty)?),* $(,)? }) => {
        impl $(<$generic: Wire>)? Wire for $type $(<$generic>)? {
            fn put(&self, out: &mut impl $crate::encode::Sink) {
                $( put!(&self.$field, out $(, $form)?); )*
            }

            // Where it is a call, each number goes through memory in another width than it is read back in, and waits there.
            #[inline(always)]
            fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
                Ok($type { $( $field: take!(from, $field $(, $form)?) ),* })
            }
        }

        #[cfg(test)]
        impl $(<$generic: Wire>)? $crate::tests::Record for $type $(<$generic>)? {
            const FIELDS: &'static [&'static str] = &[$( stringify!($field) ),*];
        }
    };
}

/// An enum: a number of one byte, then the fields of its variant. Gives the type `number`, `put_fields` and
/// `take_fields`, which frames use with the number in their header, and a table of the numbers and names.
macro_rules! choice {
    ($type:ident $(<$generic:ident>)? {
        $( $number:literal $variant:ident
            $(($($inner:ident $(: $inner_form:ty)?),+))? $({ $($field:ident $(: $form:ty)?),* $(,)? })?
        ),* $(,)?
    }) => {
        impl $(<$generic: Wire>)? Choice for $type $(<$generic>)? {
            const TABLE: &'static [Kind] = &[$( Kind {
                number: $number,
                name: stringify!($variant),
                fields: &[$($( stringify!($inner) ),+)? $($( stringify!($field) ),*)?],
            } ),*];

            fn number(&self) -> u8 {
                match self {
                    $( $type::$variant { .. } => $number, )*
                }
            }

            // A choice without any fields leaves `out` alone.
            #[allow(unused_variables)]
            fn put_fields(&self, out: &mut impl $crate::encode::Sink) {
                match self {
                    $( $type::$variant $(($($inner),+))? $({ $($field),* })? => {
                        $( $( put!($inner, out $(, $inner_form)?); )+ )?
                        $( $( put!($field, out $(, $form)?); )* )?
                    } )*
                }
            }

            #[allow(unused_variables)]
            fn take_fields(number: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Bad> {
                Ok(Some(match number {
                    $( $number => $type::$variant
                        $(($( { let $inner = take!(unnamed from $(, $inner_form)?); $inner } ),+))?
                        $({ $( $field: take!(from, $field $(, $form)?) ),* })?, )*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

/// A row of the table of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The number in the frame's header.
    pub number: u8,
    /// The variant's name.
    pub name: &'static str,
    /// The fields in their order; a variant that wraps a record has that record for its one field.
    pub fields: &'static [&'static str],
}

/// What [`choice!`] gives an enum.
pub(crate) trait Choice: Sized {
    const TABLE: &'static [Kind];
    fn number(&self) -> u8;
    fn put_fields(&self, out: &mut impl crate::encode::Sink);
    /// `None` if no variant has the number.
    fn take_fields(number: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Bad>;
}

impl<T: Choice> Wire for T {
    fn put(&self, out: &mut impl crate::encode::Sink) {
        out.bytes().push(self.number());
        self.put_fields(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let number = u8::take(from)?;
        T::take_fields(number, from)?.ok_or_else(|| Bad::malformed(format!("there is no choice {number} here")))
    }
}

pub(crate) use {choice, put, record, take};
