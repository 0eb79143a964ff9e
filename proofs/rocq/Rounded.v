(** Dots of operands that are rounded once each: accdP, acc and dot, with underflow.

    Sections 1 and 5. [a], [b] are exact, [a'], [b'] the numbers that the dot reads. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Inner Rows Coded.
Import ListNotations.
Open Scope R_scope.

(** A dot of operands that are rounded once each: accdP, and the sum of acc. [a], [b] exact,
    [a'], [b'] as rounded, F at least |a| + |b| everywhere. *)
Definition exact_dot := fold_right (fun (k : R * R * R * R) t => let '(a, b, a', b') := k in a * b + t) 0.
Definition exact_mass := fold_right (fun (k : R * R * R * R) t => let '(a, b, a', b') := k in Rabs (a * b) + t) 0.
Definition pairs := map (fun k : R * R * R * R => let '(a, b, a', b') := k in (a', b')).
Definition rounded_once F (l : list (R * R * R * R)) := forall a b a' b', In (a, b, a', b') l ->
  Rabs (a' - a) <= u * Rabs a + eta /\ Rabs (b' - b) <= u * Rabs b + eta /\ Rabs a + Rabs b <= F.

Lemma eta_small : eta <= / 1000.
Proof.
  unfold eta, emin. assert (H : bpow radix2 (-149) <= bpow radix2 (-10)) by (apply bpow_le; lia).
  simpl (bpow radix2 (-10)) in H. lra.
Qed.

Lemma rounded_products :
  forall F l, 0 <= F -> rounded_once F l ->
  Rabs (A (pairs l) - exact_dot l) <= path 2 * exact_mass l + INR (length l) * ((1 + u) * F + eta) * eta /\
  M (pairs l) <= (1 + path 2) * exact_mass l + INR (length l) * ((1 + u) * F + eta) * eta.
Proof.
  intros F l HF H. assert (U := u_positive). assert (P := eta_positive).
  replace (path 2) with (2 * u + u * u) by (unfold path; ring).
  unfold A, M. induction l as [| [[[a b] a'] b'] l IH].
  - simpl. replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct (H a b a' b' (or_introl eq_refl)) as (Ea & Eb & EF).
    destruct IH as (I & J). { intros x y x' y' K. apply H. right. exact K. }
    change (length ((a, b, a', b') :: l)) with (S (length l)). rewrite S_INR. simpl.
    assert (Ya := Rabs_pos a). assert (Yb := Rabs_pos b).
    assert (D : Rabs (a' * b' - a * b) <= (2 * u + u * u) * Rabs (a * b) + ((1 + u) * F + eta) * eta).
    { replace (a' * b' - a * b) with ((a' - a) * (b' - b) + (a' - a) * b + a * (b' - b)) by ring.
      eapply Rle_trans. apply Rabs_triang. eapply Rle_trans. apply Rplus_le_compat_r. apply Rabs_triang.
      rewrite !Rabs_mult.
      assert (T1 : Rabs (a' - a) * Rabs (b' - b) <= (u * Rabs a + eta) * (u * Rabs b + eta)) by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
      assert (T2 : Rabs (a' - a) * Rabs b <= (u * Rabs a + eta) * Rabs b) by (apply Rmult_le_compat_r; assumption).
      assert (T3 : Rabs a * Rabs (b' - b) <= Rabs a * (u * Rabs b + eta)) by (apply Rmult_le_compat_l; assumption).
      assert (T4 : (1 + u) * (Rabs a + Rabs b) * eta <= (1 + u) * F * eta).
      { apply Rmult_le_compat_r; [lra |]. apply Rmult_le_compat_l; lra. }
      replace ((u * Rabs a + eta) * (u * Rabs b + eta)) with (u * u * (Rabs a * Rabs b) + u * (Rabs a + Rabs b) * eta + eta * eta) in T1 by ring.
      replace ((u * Rabs a + eta) * Rabs b) with (u * (Rabs a * Rabs b) + Rabs b * eta) in T2 by ring.
      replace (Rabs a * (u * Rabs b + eta)) with (u * (Rabs a * Rabs b) + Rabs a * eta) in T3 by ring. lra. }
    split.
    + match goal with |- Rabs ?x <= _ => replace x with ((a' * b' - a * b) + (over (fun p d => p * d) (pairs l) - exact_dot l)) by ring end.
      eapply Rle_trans. apply Rabs_triang. lra.
    + assert (Rabs (a' * b') <= Rabs (a * b) + Rabs (a' * b' - a * b)).
      { replace (a' * b') with (a * b + (a' * b' - a * b)) at 1 by ring. apply Rabs_triang. }
      lra.
Qed.

Theorem rounded_operands :
  forall t l F, keys t = pairs l -> 0 <= F -> rounded_once F l ->
  let n := INR (length l) in n * u <= / 3 ->
  Rabs (computed t - exact_dot l) <=
    compound (path 2) (n * u) * exact_mass l + eta * (n + 1) * (1 + n * u) * (2 + F).
Proof.
  intros t l F K HF H n Hn. destruct (rounded_products F l HF H) as (D & Mb).
  assert (NE : length (keys t) = length l) by (rewrite K; unfold pairs; apply map_length).
  assert (N := n_positive t). rewrite NE in N. fold n in N, D, Mb.
  assert (U := u_positive). assert (P := eta_positive). assert (PS := eta_small). assert (UB : u <= / 1000) by (unfold u, prec; simpl; lra).
  assert (E := inner_any_order t). rewrite inner_keys, mass_keys, <- length_keys, NE, K in E. fold n in E.
  assert (NU : 0 <= n * u) by (apply Rmult_le_pos; lra).
  assert (X : n * u * M (pairs l) <= n * u * ((1 + path 2) * exact_mass l + n * ((1 + u) * F + eta) * eta)) by (apply Rmult_le_compat_l; assumption).
  replace (computed t - exact_dot l) with ((computed t - A (pairs l)) + (A (pairs l) - exact_dot l)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  assert (Z : n * ((1 + u) * F + eta) * eta * (1 + n * u) + n * (1 + n * u) * eta <= eta * (n + 1) * (1 + n * u) * (2 + F)).
  { assert (W : n * ((1 + u) * F + eta) + n <= (n + 1) * (2 + F)).
    { assert (n * u * F <= / 3 * F) by (apply Rmult_le_compat_r; lra). assert (n * eta <= n * / 1000) by (apply Rmult_le_compat_l; lra). lra. }
    replace (n * ((1 + u) * F + eta) * eta * (1 + n * u) + n * (1 + n * u) * eta)
      with (eta * (1 + n * u) * (n * ((1 + u) * F + eta) + n)) by ring.
    replace (eta * (n + 1) * (1 + n * u) * (2 + F)) with (eta * (1 + n * u) * ((n + 1) * (2 + F))) by ring.
    apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact W]. }
  unfold compound. lra.
Qed.

(** acc where O is such a sum over a computed row sum l >= 1: one rounding more. V bounds the values,
    W the weights; W / l is the largest probability. *)
Theorem rounded_quotient :
  forall t l V W row, keys t = pairs l -> 0 <= V -> 0 <= W -> 1 <= row -> rounded_once (V + W) l ->
  let n := INR (length l) in n * u <= / 4 ->
  Rabs (rnd (computed t / row) - exact_dot l / row) <=
    compound (path 3) (n * u) * (exact_mass l / row) + eta * (n + 1) * (1 + n * u) * (2 + (V + W / row)).
Proof.
  intros t l V W row K HV HW Hr H n Hn.
  assert (HF : 0 <= V + W) by lra. destruct (rounded_products (V + W) l HF H) as (D & Mb).
  assert (NE : length (keys t) = length l) by (rewrite K; unfold pairs; apply map_length).
  assert (N := n_positive t). rewrite NE in N. fold n in N, D, Mb.
  assert (U := u_positive). assert (P := eta_positive). assert (PS := eta_small). assert (UB : u <= / 1000) by (unfold u, prec; simpl; lra).
  assert (E := inner_any_order t). rewrite inner_keys, mass_keys, <- length_keys, NE, K in E. fold n in E.
  assert (NU : 0 <= n * u) by (apply Rmult_le_pos; lra).
  set (F := V + W) in *. set (q := n * ((1 + u) * F + eta) * eta) in *.
  assert (X : n * u * M (pairs l) <= n * u * ((1 + path 2) * exact_mass l + q)) by (apply Rmult_le_compat_l; assumption).
  set (e := compound (path 2) (n * u) * exact_mass l + (q * (1 + n * u) + n * (1 + n * u) * eta)).
  assert (S : Rabs (computed t - exact_dot l) <= e).
  { replace (computed t - exact_dot l) with ((computed t - A (pairs l)) + (A (pairs l) - exact_dot l)) by ring.
    eapply Rle_trans. apply Rabs_triang. unfold e, compound. lra. }
  assert (XM : Rabs (exact_dot l) <= exact_mass l).
  { clear. induction l as [| [[[a b] a'] b'] l IH]; simpl; [rewrite Rabs_R0; lra |]. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (R := rnd_error (computed t / row)).
  assert (IR : 0 < / row) by (apply Rinv_0_lt_compat; lra). assert (IR1 : / row <= 1) by (rewrite <- Rinv_1; apply Rinv_le; lra).
  assert (C : Rabs (computed t / row) <= (exact_mass l + e) / row).
  { unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ row)) by lra. apply Rmult_le_compat_r; [lra |].
    replace (computed t) with (exact_dot l + (computed t - exact_dot l)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (G : Rabs (computed t / row - exact_dot l / row) <= e / row).
  { replace (computed t / row - exact_dot l / row) with ((computed t - exact_dot l) / row) by (unfold Rdiv; ring).
    unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ row)) by lra. apply Rmult_le_compat_r; lra. }
  assert (T : u * Rabs (computed t / row) <= u * ((exact_mass l + e) / row)) by (apply Rmult_le_compat_l; lra).
  replace (rnd (computed t / row) - exact_dot l / row)
    with ((rnd (computed t / row) - computed t / row) + (computed t / row - exact_dot l / row)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  assert (Z : (1 + u) * ((q * (1 + n * u) + n * (1 + n * u) * eta) / row) + eta <= eta * (n + 1) * (1 + n * u) * (2 + (V + W / row))).
  { assert (Y : (q * (1 + n * u) + n * (1 + n * u) * eta) / row <= eta * (1 + n * u) * (n * ((1 + u) * (V + W / row) + eta) + n)).
    { unfold q, F. replace ((n * ((1 + u) * (V + W) + eta) * eta * (1 + n * u) + n * (1 + n * u) * eta) / row)
        with (eta * (1 + n * u) * (n * ((1 + u) * (V * / row + W * / row) + eta * / row) + n * / row)) by (field; lra).
      apply Rmult_le_compat_l; [apply Rmult_le_pos; lra |].
      assert (V * / row <= V * 1) by (apply Rmult_le_compat_l; lra).
      assert (eta * / row <= eta * 1) by (apply Rmult_le_compat_l; lra).
      assert (n * / row <= n * 1) by (apply Rmult_le_compat_l; lra).
      apply Rplus_le_compat; [| lra]. apply Rmult_le_compat_l; [lra |]. unfold Rdiv.
      assert ((1 + u) * (V * / row + W * / row) <= (1 + u) * (V + W * / row)) by (apply Rmult_le_compat_l; lra). lra. }
    set (f := V + W / row) in *.
    assert (F0 : 0 <= f) by (unfold f; apply Rplus_le_le_0_compat; [exact HV | apply Rmult_le_pos; lra]).
    assert (Q : (1 + u) * (n * ((1 + u) * f + eta) + n) + 1 <= (n + 1) * (2 + f)).
    { assert (A1 : n * u * f <= / 4 * f) by (apply Rmult_le_compat_r; lra).
      assert (A2 : n * u * u * f <= / 4 * / 1000 * f).
      { apply Rmult_le_compat_r; [lra |]. apply Rmult_le_compat; lra. }
      assert (A3 : n * eta <= n * / 1000) by (apply Rmult_le_compat_l; lra).
      assert (A4 : n * u * eta <= / 4 * / 1000) by (apply Rmult_le_compat; lra). lra. }
    assert (0 <= eta * (1 + n * u)) by (apply Rmult_le_pos; lra).
    assert (Y2 : (1 + u) * ((q * (1 + n * u) + n * (1 + n * u) * eta) / row) <= (1 + u) * (eta * (1 + n * u) * (n * ((1 + u) * f + eta) + n))) by (apply Rmult_le_compat_l; lra).
    assert (Y3 : eta * (1 + n * u) * ((1 + u) * (n * ((1 + u) * f + eta) + n) + 1) <= eta * (1 + n * u) * ((n + 1) * (2 + f))) by (apply Rmult_le_compat_l; assumption).
    assert (0 <= eta * (n * u)) by (apply Rmult_le_pos; lra). lra. }
  assert (P3 : path 3 = 3 * u + 3 * (u * u) + u * (u * u)) by (unfold path; ring).
  assert (P2 : path 2 = 2 * u + u * u) by (unfold path; ring).
  assert (EQ : u * ((exact_mass l + e) / row) + e / row =
    compound (path 3) (n * u) * (exact_mass l / row) + (1 + u) * ((q * (1 + n * u) + n * (1 + n * u) * eta) / row)).
  { unfold e, compound. rewrite P3, P2. field. lra. }
  lra.
Qed.

(** dot over channels: D products of numbers that are not rounded before. *)
Theorem channel_dot :
  forall t top, 0 <= top -> let n := INR (products t) in n * n * u <= 1 ->
  Rabs (computed t - inner t) <= n * u * inner_mass t + eta * (n + 1) * (1 + top).
Proof.
  intros t top Ht n Hn. assert (E := inner_any_order t). fold n in E. assert (P := eta_positive).
  assert (N : 0 <= n) by apply pos_INR.
  assert (n * (1 + n * u) * eta <= eta * (n + 1) * (1 + top)).
  { replace (n * (1 + n * u) * eta) with (eta * (n + n * n * u)) by ring.
    rewrite (Rmult_assoc eta).
    apply Rmult_le_compat_l; [lra |]. assert (0 <= (n + 1) * top) by (apply Rmult_le_pos; lra). lra. }
  lra.
Qed.
