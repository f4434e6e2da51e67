//! Each rule is tried on a history that breaks it: a checker that has never fired proves nothing.

mod edit;
mod plain;
mod transactions;

use anyhow::{Result, ensure};

use crate::check::{RULES, check};
use crate::event::Event;

type Mutate = fn(&mut [Event]) -> Option<()>;

/// The rule that must fire, what is done to the history, and how.
const MUTANTS: [(&str, &str, Mutate); 27] = [
    ("A1", "one reader sees another value at an offset", plain::other_value),
    ("A2", "a value is read again behind the end", plain::second_place),
    ("A3", "a read value's send is said to be refused", plain::refused),
    ("A3", "a transaction that was read is said to be aborted", transactions::aborted),
    ("A4", "an acknowledged value is in no poll", plain::lost),
    ("A5", "the last acknowledged value is in no poll", plain::lost_at_the_end),
    ("A6", "one poll of a reader is gone", plain::poll_gone),
    ("A7", "a reader's poll gives what the one before gave", plain::poll_twice),
    ("A8", "a run comes twice in one poll", plain::run_twice),
    ("A8", "a run is missing inside one poll", plain::run_gone),
    ("A8", "a run is missing between two polls of a transaction", transactions::passed_over_inside),
    ("A9", "two values of a writer change places", plain::swapped),
    ("A10", "two values of a transaction change places", transactions::swapped_inside),
    ("A11", "a transaction reads its own value", transactions::own_read),
    ("A12", "two transactions read from each other", transactions::circle),
    ("A12", "a transaction reads from a later one", transactions::from_the_future),
    ("A13", "one scan lacks a value of a transaction", transactions::torn),
    ("A14", "a record's checksum is wrong", plain::bad_record),
    ("A14", "a value is read that was never sent", plain::never_sent),
    ("A15", "an input value's copy is in no poll", transactions::copy_gone),
    ("A15", "an input value has two copies", transactions::copied_twice),
    ("D1", "a broker's end lies before an acknowledged offset", plain::stale_end),
    ("D1", "a reader's position is out of range", plain::out_of_range),
    ("D2", "one zone's scan lacks a record", plain::scans_differ),
    ("D3", "an end steps back", plain::end_steps_back),
    ("D3", "a stable offset lies behind the end", transactions::stable_behind_the_end),
    ("D5", "there are more offsets than records", plain::hole),
];

/// Prints the table; an error when a rule stays silent on its mutant or fires on the history itself.
pub fn self_test(clean: &[Event]) -> Result<()> {
    let report = check(clean);
    println!("{:<5} {:<52} violations", "rule", "what is done to the history");
    println!("{:<5} {:<52} {}", "-", "nothing", report.violations());
    ensure!(report.violations() == 0, "a rule fires on the history itself");
    for (rule, what, mutate) in MUTANTS {
        let mut events = clean.to_vec();
        ensure!(mutate(&mut events).is_some(), "{rule}: the history has no place where {what}");
        let report = check(&events);
        let all = RULES.iter().map(|rule| (rule, report.of(rule).0)).filter(|(_, count)| *count > 0);
        let all: Vec<String> = all.map(|(rule, count)| format!("{rule} {count}")).collect();
        println!("{rule:<5} {what:<52} {}", all.join(", "));
        ensure!(report.of(rule).0 > 0, "{rule} stays silent where {what}");
    }
    for rule in RULES {
        ensure!(MUTANTS.iter().any(|(tried, ..)| *tried == rule), "{rule} has no mutant");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean;

    #[test]
    fn every_rule_fires_on_its_mutant_and_none_on_the_clean_history() {
        for seed in 1..4 {
            self_test(&clean::history(seed)).unwrap();
        }
    }
}
