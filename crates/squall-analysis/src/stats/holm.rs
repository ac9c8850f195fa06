//! Holm's correction: what several p-values are worth when all of them were looked at.
//!
//! The chance that any comparison is called a difference although there is no difference stays at the level, however the
//! comparisons depend on each other (S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
//! Journal of Statistics 6, 1979).

/// Each p-value adjusted for the number of p-values, in the same order and at most 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest_so_far: f64 = 0.0;
    for (place, &index) in order.iter().enumerate() {
        let left = (p_values.len() - place) as f64;
        largest_so_far = largest_so_far.max((p_values[index] * left).min(1.0));
        adjusted[index] = largest_so_far;
    }
    adjusted
}
