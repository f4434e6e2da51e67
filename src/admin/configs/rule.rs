use crate::admin::configs::{Kind, ShareReset, list};

/// What values a setting may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Any,
    AtLeast(i64),
    Within(i64, i64),
    /// A range, or one number outside of it.
    WithinOr(i64, i64, i64),
    Ratio,
    OneOf(&'static [&'static str]),
    EachOf(&'static [&'static str]),
    /// `partition:broker` pairs, or a star for all.
    Replicas,
    /// Where a share group begins: `earliest`, `latest` or `by_duration:` with a length of time.
    ShareReset,
}

impl Rule {
    /// # Errors
    /// What is wrong, in Kafka's words.
    pub fn check(self, name: &str, kind: Kind, value: &str) -> Result<(), String> {
        let value = value.trim();
        match kind {
            Kind::Boolean if !matches!(value.to_ascii_lowercase().as_str(), "true" | "false") => {
                return Err("Expected value to be either true or false".into());
            }
            Kind::Int if value.parse::<i32>().is_err() => return Err("Not a number of type INT".into()),
            Kind::Long if value.parse::<i64>().is_err() => return Err("Not a number of type LONG".into()),
            Kind::Double if value.parse::<f64>().is_err() => return Err("Not a number of type DOUBLE".into()),
            // An empty list is one; an empty part of a list is a slip.
            Kind::List if !value.is_empty() && value.split(',').any(|part| part.trim().is_empty()) => {
                return Err("values must not be empty".into());
            }
            _ => {}
        }
        let number: f64 = value.parse().unwrap_or(0.0);
        let whole: i64 = value.parse().unwrap_or(0);
        let within = |low: i64, high: i64| match whole {
            _ if whole < low => Err(format!("Value must be at least {low}")),
            _ if whole > high => Err(format!("Value must be no more than {high}")),
            _ => Ok(()),
        };
        let one_of = |allowed: &[&str], value: &str| match allowed.contains(&value) {
            true => Ok(()),
            false => Err(format!("String must be one of: {}", allowed.join(", "))),
        };
        match self {
            Rule::Any => Ok(()),
            Rule::AtLeast(low) => within(low, i64::MAX),
            Rule::Within(low, high) => within(low, high),
            Rule::WithinOr(low, high, or) if whole == or || (low..=high).contains(&whole) => Ok(()),
            Rule::WithinOr(low, high, or) => Err(format!("Value must be between {low} and {high} or equal to {or}")),
            Rule::Ratio if number > 1.0 => Err("Value must be no more than 1".into()),
            // Also what is no number at all.
            Rule::Ratio if !(0.0..=1.0).contains(&number) => Err("Value must be at least 0".into()),
            Rule::Ratio => Ok(()),
            Rule::OneOf(allowed) => one_of(allowed, value),
            Rule::EachOf(allowed) => list(value).try_for_each(|part| one_of(allowed, part)),
            Rule::Replicas if is_replicas(value) => Ok(()),
            Rule::Replicas => Err(format!(
                "{name} must be the literal '*' or a list of replicas in the following format: \
                 [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )),
            Rule::ShareReset if ShareReset::parse(value).is_some() => Ok(()),
            Rule::ShareReset => Err(format!(
                "Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of \
                 the format 'by_duration:<PnDTnHnMn.nS>'."
            )),
        }
    }
}

fn is_replicas(value: &str) -> bool {
    let is_pair = |pair: &str| {
        pair.split_once(':').is_some_and(|(partition, broker)| {
            [partition, broker].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    value == "*" || list(value).all(is_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_as_kafka_does() {
        let wrong = [
            (Rule::AtLeast(-1), Kind::Long, "-2", "Value must be at least -1"),
            (Rule::AtLeast(-1), Kind::Long, "x", "Not a number of type LONG"),
            (Rule::AtLeast(0), Kind::Int, "9999999999", "Not a number of type INT"),
            (Rule::WithinOr(1, 9, -1), Kind::Int, "0", "Value must be between 1 and 9 or equal to -1"),
            (Rule::Ratio, Kind::Double, "2", "Value must be no more than 1"),
            (Rule::Ratio, Kind::Double, "NaN", "Value must be at least 0"),
            (Rule::Any, Kind::Boolean, "yes", "Expected value to be either true or false"),
            (Rule::OneOf(&["a", "b"]), Kind::String, "c", "String must be one of: a, b"),
            (Rule::EachOf(&["a", "b"]), Kind::List, "a,c", "String must be one of: a, b"),
            (Rule::EachOf(&["a", "b"]), Kind::List, "a,", "values must not be empty"),
            (Rule::Any, Kind::List, ", a", "values must not be empty"),
            (Rule::Any, Kind::List, "a, ,b", "values must not be empty"),
        ];
        for (rule, kind, value, why) in wrong {
            assert_eq!(rule.check("name", kind, value), Err(why.to_owned()));
        }
        assert!(Rule::Replicas.check("name", Kind::List, "abc").is_err_and(|why| why.starts_with("name must be the")));
    }
}
