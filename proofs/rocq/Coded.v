(** The ledger's bounds in the very form in which the code computes them.

    Each theorem's right side is one line of dmverify/spec/ledger/bounds; a test evaluates the
    statement and the code on the same numbers and compares them term by term. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner Rows Orders.
Import ListNotations.
Open Scope R_scope.

Lemma M_positive : forall r, 0 <= M r.
Proof.
  unfold M. induction r as [| [p d] r IH]; simpl; [lra |]. assert (H := Rabs_pos (p * d)). lra.
Qed.

Lemma A_below_M : forall r, Rabs (A r) <= M r.
Proof.
  unfold A, M. induction r as [| [p d] r IH]; simpl; [rewrite Rabs_R0; lra |].
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Lemma n_positive : forall t, 1 <= INR (length (keys t)).
Proof. intro t. rewrite length_keys. apply (le_INR 1). apply products_positive. Qed.

(** match, an order that is not stated. *)
Theorem match_any_order :
  forall t top, 0 <= top -> let r := keys t in let n := INR (length r) in
  Rabs (A r - computed t) <= n * u * M r + n * eta * (1 + n * u + top).
Proof.
  intros t top Ht r n. assert (E := inner_any_order t). rewrite inner_keys, mass_keys, <- length_keys in E.
  fold r in E. fold n in E. rewrite Rabs_minus_sym in E.
  assert (N := n_positive t). fold r in N. fold n in N. assert (P := eta_positive).
  assert (0 <= n * eta * top) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | exact Ht]).
  replace (n * eta * (1 + n * u + top)) with (n * (1 + n * u) * eta + n * eta * top) by ring. lra.
Qed.

(** match, an order with at most k roundings on the way of a term. *)
Theorem match_stated_order :
  forall t k top, (depth t <= k)%nat -> 0 <= top -> let r := keys t in let n := INR (length r) in
  Rabs (A r - computed t) <= path k * M r + n * eta * (1 + path k + top).
Proof.
  intros t k top D Ht r n. assert (E := stated_order t k D). rewrite inner_keys, mass_keys, <- length_keys in E.
  fold r in E. fold n in E. rewrite Rabs_minus_sym in E.
  assert (N := n_positive t). fold r in N. fold n in N. assert (P := eta_positive).
  assert (0 <= n * eta * top) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | exact Ht]).
  replace (n * eta * (1 + path k + top)) with (n * (1 + path k) * eta + n * eta * top) by ring. lra.
Qed.

(** rec: the delta pass presents P' and the dS step reads P, P' rounded once. *)
Theorem presented_once :
  forall l : list (R * R * R), (forall P P' d, In (P, P', d) l -> P = rnd P') ->
  Rabs (fold_right (fun k t => let '(P, P', d) := k in (P * d - P' * d) + t) 0 l) <=
    path 1 * fold_right (fun k t => let '(P, P', d) := k in Rabs (P' * d) + t) 0 l
    + eta * fold_right (fun k t => let '(P, P', d) := k in Rabs d + t) 0 l.
Proof.
  assert (PU : path 1 = u) by (unfold path; simpl; ring). rewrite PU.
  induction l as [| [[P P'] d] l IH]; intro H; simpl.
  - rewrite Rabs_R0. lra.
  - assert (E := rnd_error P'). rewrite <- (H P P' d (or_introl eq_refl)) in E.
    assert (X : Rabs (P * d - P' * d) <= u * Rabs (P' * d) + eta * Rabs d).
    { replace (P * d - P' * d) with ((P - P') * d) by ring. rewrite !Rabs_mult.
      assert (Z := Rabs_pos d). assert (Rabs (P - P') * Rabs d <= (u * Rabs P' + eta) * Rabs d) by (apply Rmult_le_compat_r; assumption).
      lra. }
    eapply Rle_trans. apply Rabs_triang.
    assert (Y := IH (fun P P' d I => H P P' d (or_intror I))). lra.
Qed.

(** elem, two roundings. *)
Theorem elem_two_roundings :
  forall delta r, binary32 delta -> all_binary32 r ->
  Rabs (residual delta r - (A r - delta * B r)) <= path 2 * spread delta r + INR (length r) * eta.
Proof.
  intros delta r Fd F. assert (E := elem_sum delta r Fd F). unfold elem_bound in E.
  replace (path 2) with (2 * u + u * u) by (unfold path; ring). exact E.
Qed.

(** elem, shifted: the difference with the shift is rounded first. [r] has the exact differences
    d = dP - shift, dS = rnd(P rnd(rnd d - lo)). *)
Definition rounded (r : row) : row := map (fun k => (fst k, rnd (snd k))) r.
Definition differences (r : row) := forall p d, In (p, d) r -> Rabs (rnd d - d) <= u * Rabs d.

Theorem elem_three_roundings :
  forall lo r, binary32 lo -> differences r ->
  Rabs (residual lo (rounded r) - (A r - lo * B r)) <=
    path 2 * spread lo r + u * (1 + path 2) * M r + INR (length r) * eta.
Proof.
  intros lo r Fl. unfold residual, A, B, M, spread. induction r as [| [p d] r IH]; intro H.
  - simpl. replace (0 - (0 - lo * 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - assert (D : Rabs (rnd d - d) <= u * Rabs d) by (apply (H p d); left; reflexivity).
    assert (H' : differences r) by (intros p' d' I; apply (H p' d'); right; exact I). specialize (IH H').
    change (length ((p, d) :: r)) with (S (length r)). rewrite S_INR. simpl.
    assert (E := elem_error lo p (rnd d) Fl (rnd_format d)). assert (U := u_positive).
    assert (X : Rabs (p * (rnd d - lo) - p * (d - lo)) <= u * Rabs (p * d)).
    { replace (p * (rnd d - lo) - p * (d - lo)) with (p * (rnd d - d)) by ring. rewrite !Rabs_mult.
      replace (u * (Rabs p * Rabs d)) with (Rabs p * (u * Rabs d)) by ring. apply Rmult_le_compat_l; [apply Rabs_pos | exact D]. }
    assert (Y : Rabs (p * (rnd d - lo)) <= Rabs (p * (d - lo)) + u * Rabs (p * d)).
    { replace (p * (rnd d - lo)) with (p * (d - lo) + (p * (rnd d - lo) - p * (d - lo))) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    assert (C : 0 <= 2 * u + u * u) by (assert (0 <= u * u) by (apply Rmult_le_pos; lra); lra).
    assert (Z : (2 * u + u * u) * Rabs (p * (rnd d - lo)) <= (2 * u + u * u) * (Rabs (p * (d - lo)) + u * Rabs (p * d)))
      by (apply Rmult_le_compat_l; assumption).
    replace (path 2) with (2 * u + u * u) in * by (unfold path; ring).
    replace (dS lo p (rnd d) + over (dS lo) (rounded r) - (p * d + over (fun p d => p * d) r - lo * (p + over (fun p _ => p) r)))
      with ((dS lo p (rnd d) - p * (rnd d - lo)) + (p * (rnd d - lo) - p * (d - lo))
            + (over (dS lo) (rounded r) - (over (fun p d => p * d) r - lo * over (fun p _ => p) r))) by ring.
    eapply Rle_trans. apply Rabs_triang.
    assert (T := Rabs_triang (dS lo p (rnd d) - p * (rnd d - lo)) (p * (rnd d - lo) - p * (d - lo))). lra.
Qed.

Lemma quotient_coded :
  forall a a' b b' g h S n z delta top, delta = rnd (a' / b') ->
  0 < b -> b <= n -> 1 <= n -> 0 <= h <= / 4 -> n * u <= / 4 -> Rabs a <= S -> 0 <= g -> 0 <= top ->
  z <= n * (1 + n * u) * eta -> Rabs (a' - a) <= g * S + z -> Rabs (b' - b) <= h * b ->
  Rabs (a - delta * b) <=
    g * S + (Rabs a + g * S) * (h + u) / (1 - h) + n * eta * (4 + Rabs delta + top).
Proof.
  intros a a' b b' g h S n z delta top -> Hb Hbn Hn Hh Hnu Ha Hg Ht Hz Ea Eb.
  assert (Hh1 : 0 <= h < 1) by lra.
  assert (Q := quotient_residue a a' b b' h (g * S + z) Hb Hh1 Ea Eb).
  assert (U := u_positive). assert (P := eta_positive). assert (UB : u <= / 1000) by (unfold u, prec; simpl; lra).
  set (k := (h + u) / (1 - h)) in *.
  assert (K : 0 <= k <= / 2).
  { unfold k. split.
    - apply Rmult_le_pos; [lra |]. left. apply Rinv_0_lt_compat. lra.
    - apply Rmult_le_reg_r with (1 - h); [lra |]. replace ((h + u) / (1 - h) * (1 - h)) with (h + u) by (field; lra). lra. }
  assert (Z0 : (1 + k) * z <= n * eta * 2).
  { assert (z <= n * (5 / 4) * eta).
    { eapply Rle_trans. exact Hz. apply Rmult_le_compat_r; [lra |]. apply Rmult_le_compat_l; lra. }
    assert ((1 + k) * z <= (1 + k) * (n * (5 / 4) * eta)) by (apply Rmult_le_compat_l; lra).
    assert (N0 : 0 <= n * eta) by (apply Rmult_le_pos; lra).
    assert ((1 + k) * (n * (5 / 4) * eta) <= 3 / 2 * (n * (5 / 4) * eta)).
    { apply Rmult_le_compat_r; [| lra]. replace (n * (5 / 4) * eta) with (5 / 4 * (n * eta)) by ring. lra. }
    replace (3 / 2 * (n * (5 / 4) * eta)) with (15 / 8 * (n * eta)) in * by field. lra. }
  assert (B0 : eta * b <= n * eta * 1) by nra.
  assert (D := Rabs_pos (rnd (a' / b'))).
  assert (E : 0 <= n * eta * (1 + Rabs (rnd (a' / b')) + top)).
  { apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]. }
  replace (g * S + (Rabs a + g * S) * (h + u) / (1 - h) + n * eta * (4 + Rabs (rnd (a' / b')) + top))
    with (g * S + (Rabs a + g * S) * k + n * eta * 2 + n * eta * 1 + n * eta * (1 + Rabs (rnd (a' / b')) + top))
    by (unfold k; field; lra).
  replace (g * S + z + (Rabs a + (g * S + z)) * k + eta * b)
    with (g * S + (Rabs a + g * S) * k + (1 + k) * z + eta * b) in Q by ring. lra.
Qed.

(** balance, renormalized: no term in 1 - B. *)
Theorem balance_renormalized :
  forall t b' h top, let r := keys t in let n := INR (length r) in let delta := rnd (computed t / b') in
  0 < B r -> B r <= n -> 0 <= h <= / 4 -> n * u <= / 4 -> 0 <= top -> Rabs (b' - B r) <= h * B r ->
  let g := n * u in
  Rabs (A r - delta * B r) <=
    g * M r + (Rabs (A r) + g * M r) * (h + u) / (1 - h) + n * eta * (4 + Rabs delta + top).
Proof.
  intros t b' h top r n delta Hb Hbn Hh Hnu Ht Eb g.
  assert (N := n_positive t). fold r in N. fold n in N. assert (U := u_positive).
  apply quotient_coded with (a' := computed t) (b' := b') (z := n * (1 + n * u) * eta); try assumption; try reflexivity.
  - apply A_below_M.
  - unfold g. apply Rmult_le_pos; lra.
  - lra.
  - assert (E := inner_any_order t). rewrite inner_keys, mass_keys, <- length_keys in E. exact E.
Qed.

(** balance, shifted: the same of d = dP - shift, itself rounded once. *)
Theorem balance_shifted :
  forall t r b' h top, keys t = rounded r -> differences r ->
  let n := INR (length r) in let lo := rnd (computed t / b') in
  0 < B r -> B r <= n -> 0 <= h <= / 4 -> n * u <= / 4 -> 0 <= top -> Rabs (b' - B r) <= h * B r ->
  let g := compound (n * u) (path 1) in
  Rabs (A r - lo * B r) <=
    g * M r + (Rabs (A r) + g * M r) * (h + u) / (1 - h) + n * eta * (4 + Rabs lo + top).
Proof.
  intros t r b' h top K D n lo Hb Hbn Hh Hnu Ht Eb g.
  assert (NE : length (keys t) = length r) by (rewrite K; unfold rounded; apply map_length).
  assert (N := n_positive t). rewrite NE in N. fold n in N. assert (U := u_positive).
  assert (P1 : path 1 = u) by (unfold path; simpl; ring).
  assert (X : Rabs (A (rounded r) - A r) <= u * M r /\ M (rounded r) <= (1 + u) * M r).
  { clear - D. unfold A, M, rounded. assert (U := u_positive). induction r as [| [p d] r IH]; simpl.
    - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
    - assert (E : Rabs (rnd d - d) <= u * Rabs d) by (apply (D p d); left; reflexivity).
      destruct IH as (I & J). { intros p' d' IN. apply (D p' d'). right. exact IN. }
      assert (Y : Rabs (p * rnd d - p * d) <= u * Rabs (p * d)).
      { replace (p * rnd d - p * d) with (p * (rnd d - d)) by ring. rewrite !Rabs_mult.
        replace (u * (Rabs p * Rabs d)) with (Rabs p * (u * Rabs d)) by ring. apply Rmult_le_compat_l; [apply Rabs_pos | exact E]. }
      split.
      + match goal with |- Rabs ?x <= _ => replace x with ((p * rnd d - p * d) + (over (fun p d => p * d) (map (fun k => (fst k, rnd (snd k))) r) - over (fun p d => p * d) r)) by ring end.
        eapply Rle_trans. apply Rabs_triang. lra.
      + assert (Rabs (p * rnd d) <= Rabs (p * d) + u * Rabs (p * d)).
        { replace (p * rnd d) with (p * d + (p * rnd d - p * d)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
        lra. }
  destruct X as (X & Y). assert (MP := M_positive r).
  apply quotient_coded with (a' := computed t) (b' := b') (z := n * (1 + n * u) * eta); try assumption; try reflexivity.
  - apply A_below_M.
  - unfold g, compound. rewrite P1. assert (0 <= n * u) by (apply Rmult_le_pos; lra).
    assert (0 <= n * u * u) by (apply Rmult_le_pos; lra). lra.
  - lra.
  - assert (E := inner_any_order t). rewrite inner_keys, mass_keys, <- length_keys, NE in E. fold n in E. rewrite K in E.
    replace (computed t - A r) with ((computed t - A (rounded r)) + (A (rounded r) - A r)) by ring.
    eapply Rle_trans. apply Rabs_triang.
    assert (n * u * M (rounded r) <= n * u * ((1 + u) * M r)) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact Y]).
    unfold g, compound. rewrite P1. lra.
Qed.
