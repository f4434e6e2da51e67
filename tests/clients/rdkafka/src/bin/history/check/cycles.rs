//! A12: transactions do not read from each other in a circle (G1c), nor from one that began when they had ended.
//!
//! ```text
//! wr     writer of a value  →  transaction that read it
//! time   a transaction      →  those that began after it had ended (an unknown end is no end)
//! ww     writer of a record →  writer of the next one in the key
//! ```
//! Circles of wr and time are violations. Transactions are interleaved in the log, so circles of ww alone (G0) are
//! normal, and those that need a ww edge prove nothing: both are counted. A process's own order is part of time's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::check::Report;
use crate::check::overlay::{Axis, overlay};
use crate::check::table::Tables;
use crate::check::transactions::{Transaction, Verdict, of};
use crate::event::Run;

type Graph = Vec<BTreeSet<usize>>;

/// What was looked at.
#[derive(Default)]
pub struct Edges {
    pub reads: usize,
    pub writes: usize,
    /// Circles of writes alone, and those of reads that need a write; both are allowed.
    pub g0: usize,
    pub g1c_with_writes: usize,
}

pub fn check(tables: &Tables, report: &mut Report) -> Edges {
    let real: Vec<(u64, &Transaction)> =
        tables.transactions.0.iter().filter(|(_, t)| t.is_real()).map(|(txn, t)| (*txn, t)).collect();
    let nodes: HashMap<u64, usize> = real.iter().enumerate().map(|(node, (txn, _))| (*txn, node)).collect();
    let (reads, writes) = (reads(tables, &real, &nodes), writes(tables, &nodes));
    for (graph, through) in [(reads.clone(), "reads"), (with_time(&reads, &real), "reads and time")] {
        for circle in circles(&graph) {
            let txns: Vec<u64> = circle.iter().filter_map(|node| real.get(*node)).map(|(txn, _)| *txn).collect();
            report.violation_anywhere("A12", || format!("a circle of {through} through the transactions {txns:?}"));
        }
    }
    let both: Graph = reads.iter().zip(&writes).map(|(a, b)| a | b).collect();
    let (g0, mixed) = (circles(&writes), circles(&both));
    // With a read inside, that is: an edge between two transactions of one circle.
    let has_read = |circle: &&Vec<usize>| circle.iter().any(|from| reads[*from].iter().any(|to| circle.contains(to)));
    Edges {
        reads: reads.iter().map(BTreeSet::len).sum(),
        writes: writes.iter().map(BTreeSet::len).sum(),
        g0: g0.len(),
        g1c_with_writes: mixed.iter().filter(has_read).count(),
    }
}

fn reads(tables: &Tables, real: &[(u64, &Transaction)], nodes: &HashMap<u64, usize>) -> Graph {
    let mut graph = vec![BTreeSet::new(); real.len()];
    for (reader, (_, transaction)) in real.iter().enumerate() {
        for (key, run) in &transaction.read {
            let Some(table) = tables.keys.get(key) else { continue };
            for mark in of(&table.marks, run.value, run.count) {
                // A transaction that reads itself is A11's.
                if let Some(writer) = nodes.get(&mark.txn).filter(|writer| **writer != reader) {
                    graph[*writer].insert(reader);
                }
            }
        }
    }
    graph
}

/// Records of no transaction between two that are of one hide no edge: the order goes on through them.
fn writes(tables: &Tables, nodes: &HashMap<u64, usize>) -> Graph {
    let mut graph = vec![BTreeSet::new(); nodes.len()];
    for table in tables.keys.values() {
        let acked = table.acked.iter().filter_map(|a| Some(Run { offset: a.offset?, value: a.value, count: a.count }));
        let known: Vec<Run> = table.committed.read.iter().copied().chain(acked).collect();
        let mut before = None;
        for piece in overlay(&known, Axis::Offset).0 {
            for mark in of(&table.marks, (piece.at + piece.shift) as u64, piece.len()) {
                let Some(writer) = nodes.get(&mark.txn) else { continue };
                if let Some(before) = before.filter(|before| before != writer) {
                    let edges: &mut BTreeSet<usize> = &mut graph[before];
                    edges.insert(*writer);
                }
                before = Some(*writer);
            }
        }
    }
    graph
}

/// Adds the order of time: a row of nodes, one for each end, leads from every transaction to all that began later.
fn with_time(graph: &Graph, real: &[(u64, &Transaction)]) -> Graph {
    let known = |(_, t): &&(u64, &Transaction)| t.verdict() == Verdict::Committed;
    let ends: BTreeSet<u64> = real.iter().filter(known).filter_map(|(_, t)| t.ended).collect();
    let ends: BTreeMap<u64, usize> = ends.into_iter().zip(graph.len()..).collect();
    let mut graph = graph.clone();
    graph.resize(graph.len() + ends.len(), BTreeSet::new());
    for (earlier, later) in ends.values().zip(ends.values().skip(1)) {
        graph[*earlier].insert(*later);
    }
    for (node, (_, transaction)) in real.iter().enumerate() {
        if let Some(end) = transaction.ended.filter(|_| transaction.verdict() == Verdict::Committed) {
            graph[node].insert(ends[&end]);
        }
        if let Some((_, end)) = ends.range(..transaction.begun).next_back() {
            graph[*end].insert(node);
        }
    }
    graph
}

/// The sets of nodes that lead to each other (Tarjan), those of one node left out.
fn circles(graph: &Graph) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let (mut order, mut low) = (vec![usize::MAX; graph.len()], vec![0; graph.len()]);
    let (mut stack, mut on_stack, mut next) = (Vec::new(), vec![false; graph.len()], 0);
    for root in 0..graph.len() {
        if order[root] != usize::MAX {
            continue;
        }
        let mut path = vec![(root, graph[root].iter())];
        (order[root], low[root], on_stack[root]) = (next, next, true);
        next += 1;
        stack.push(root);
        while let Some((node, edges)) = path.last_mut() {
            let node = *node;
            match edges.next() {
                Some(&to) if order[to] == usize::MAX => {
                    (order[to], low[to], on_stack[to]) = (next, next, true);
                    next += 1;
                    stack.push(to);
                    path.push((to, graph[to].iter()));
                }
                Some(&to) => {
                    if on_stack[to] {
                        low[node] = low[node].min(order[to]);
                    }
                }
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == order[node] {
                        let from = stack.iter().rposition(|other| *other == node).expect("it was put there");
                        let circle = stack.split_off(from);
                        circle.iter().for_each(|node| on_stack[*node] = false);
                        found.extend((circle.len() > 1).then_some(circle));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::transactions::Transactions;
    use crate::event::End;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = vec![BTreeSet::new(); nodes];
        for (from, to) in edges {
            graph[*from].insert(*to);
        }
        graph
    }

    #[test]
    fn circles_are_found_and_lines_are_not() {
        assert!(circles(&graph(4, &[(0, 1), (0, 2), (1, 3), (2, 3)])).is_empty());
        let mut found = circles(&graph(7, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 6), (6, 0)]));
        found.iter_mut().for_each(|circle| circle.sort_unstable());
        found.sort_unstable();
        assert_eq!(found, [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn a_transaction_that_ended_before_another_began_comes_before_it() {
        let mut transactions = Transactions::default();
        for (txn, begun, ended) in [(0, 1, 2), (1, 3, 4)] {
            transactions.begun(txn, 7, begun);
            transactions.ended(txn, End::Committed, ended);
        }
        let real = [(0, &transactions.0[&0]), (1, &transactions.0[&1])];
        // The first read from the second.
        assert_eq!(circles(&with_time(&graph(2, &[(1, 0)]), &real)).len(), 1);
        assert_eq!(circles(&with_time(&graph(2, &[(0, 1)]), &real)).len(), 0);
    }
}
