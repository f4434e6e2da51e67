use crate::batch::{self, Rules};
use crate::produce::error;
use crate::protocol::ErrorCode;

/// Why nothing of a partition was taken.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: ErrorCode,
    /// Where single records are to blame (KIP-467).
    pub rejected: Option<Box<Rejected>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rejected {
    pub message: String,
    /// (position in its batch, why), the first of them.
    pub records: Vec<(i32, String)>,
}

impl From<ErrorCode> for Failure {
    fn from(error: ErrorCode) -> Failure {
        Failure { error, rejected: None }
    }
}

impl Failure {
    /// In Kafka's words (`LogValidator`).
    pub fn of_batch(e: &batch::Error, rules: &Rules, topic: &str, index: i32) -> Failure {
        let rejected = match e {
            batch::Error::Keyless(records) => {
                let why =
                    format!("Compacted topic cannot accept message without key in topic partition {topic}-{index}.");
                let count = records.len();
                let records: Vec<(i32, String)> = records.iter().map(|at| (*at, why.clone())).collect();
                let shown = records.iter().take(3);
                let shown: Vec<String> =
                    shown.map(|(at, why)| format!("RecordError(batchIndex={at}, message='{why}')")).collect();
                let message = format!(
                    "One or more records have been rejected due to {count} record errors in total, and only showing the \
                     first three errors at most: [{}]",
                    shown.join(", ")
                );
                Some(Box::new(Rejected { message, records }))
            }
            batch::Error::RecordTimes(records) => {
                let (min, max) = (rules.timestamp_min.max(0), rules.timestamp_max);
                let why = |(at, time): &(i32, i64)| {
                    let why = format!(
                        "Timestamp {time} of message with offset {at} is out of range. The timestamp should be within \
                         [{min}, {max}]"
                    );
                    (*at, why)
                };
                let message = "One or more records have been rejected due to invalid timestamp".to_owned();
                Some(Box::new(Rejected { message, records: records.iter().map(why).collect() }))
            }
            _ => None,
        };
        Failure { error: error::of_batch(e), rejected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_records_are_to_blame() {
        let rules = Rules { timestamp_min: 10, timestamp_max: 20, ..Rules::default() };
        let keyless = Failure::of_batch(&batch::Error::Keyless(vec![0, 2, 3, 4]), &rules, "t", 1);
        let rejected = keyless.rejected.unwrap();
        assert_eq!((keyless.error, rejected.records.len()), (ErrorCode::InvalidRecord, 4));
        assert_eq!(rejected.records[1].0, 2);
        assert!(
            rejected.message.contains("due to 4 record errors") && rejected.message.matches("batchIndex").count() == 3
        );
        let late = Failure::of_batch(&batch::Error::RecordTimes(vec![(1, 30)]), &rules, "t", 1);
        assert_eq!(late.error, ErrorCode::InvalidTimestamp);
        assert!(late.rejected.unwrap().records[0].1.ends_with("within [10, 20]"));
        assert!(Failure::of_batch(&batch::Error::Cut, &rules, "t", 1).rejected.is_none());
    }
}
