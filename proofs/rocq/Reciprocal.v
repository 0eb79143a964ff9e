(** match where exponentials are summed and 1 / l is multiplied at the end: windows.

    Section 2. P_j = rnd(e_j r) and delta = rnd(S r), S the order's sum of e_j d_j: delta knows e_j r
    where dS knows its rounding. What underflow takes of S is multiplied with r, which may be 4. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Inner Rows Orders Coded.
Import ListNotations.
Open Scope R_scope.

(** The row as dS reads it. *)
Definition scaled r (x : row) : row := map (fun k => (rnd (fst k * r), snd k)) x.

(** One rounding seen from its result. *)
Lemma seen_back : forall x, Rabs x <= (Rabs (rnd x) + eta) / (1 - u).
Proof.
  intro x. assert (U := u_positive). assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra).
  assert (E := rnd_error x). assert (T := Rabs_triang (rnd x) (x - rnd x)).
  replace (rnd x + (x - rnd x)) with x in T by ring. rewrite (Rabs_minus_sym x) in T.
  apply Rmult_le_reg_r with (1 - u); [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Definition sizes (x : row) := over (fun _ d => Rabs d) x.

Lemma scaled_row :
  forall r x, 0 < r ->
  Rabs (A (scaled r x) - r * A x) <= u * (r * M x) + eta * sizes x /\
  r * M x <= (M (scaled r x) + eta * sizes x) / (1 - u).
Proof.
  intros r x R. assert (U := u_positive). assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra).
  unfold A, M, sizes, scaled. induction x as [| [e d] x (I & J)]; simpl.
  - split.
    + replace (0 - r * 0) with 0 by ring. rewrite Rabs_R0. lra.
    + unfold Rdiv. rewrite !Rmult_0_r, Rplus_0_r, Rmult_0_l. lra.
  - assert (E := rnd_error (e * r)). assert (B := seen_back (e * r)). assert (D := Rabs_pos d). split.
    + match goal with |- Rabs ?y <= _ => replace y with ((rnd (e * r) - e * r) * d + (over (fun p d => p * d) (map (fun k => (rnd (fst k * r), snd k)) x) - r * over (fun p d => p * d) x)) by ring end.
      eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult.
      assert (X : Rabs (rnd (e * r) - e * r) * Rabs d <= (u * Rabs (e * r) + eta) * Rabs d) by (apply Rmult_le_compat_r; assumption).
      replace (Rabs (e * r)) with (Rabs e * r) in X by (rewrite Rabs_mult, (Rabs_right r); lra).
      rewrite Rabs_mult. lra.
    + assert (X : r * Rabs (e * d) <= (Rabs (rnd (e * r) * d) + eta * Rabs d) / (1 - u)).
      { replace (r * Rabs (e * d)) with (Rabs (e * r) * Rabs d) by (rewrite !Rabs_mult, (Rabs_right r) by lra; ring).
        rewrite (Rabs_mult (rnd (e * r))).
        replace ((Rabs (rnd (e * r)) * Rabs d + eta * Rabs d) / (1 - u)) with ((Rabs (rnd (e * r)) + eta) / (1 - u) * Rabs d) by (field; lra).
        apply Rmult_le_compat_r; assumption. }
      match goal with |- _ <= (?a + ?b + eta * (?c + ?f)) / _ => replace ((a + b + eta * (c + f)) / (1 - u)) with ((a + eta * c) / (1 - u) + (b + eta * f) / (1 - u)) by (field; lra) end.
      lra.
Qed.

Lemma sizes_below : forall x top, (forall e d, In (e, d) x -> Rabs d <= top) -> sizes x <= INR (length x) * top.
Proof.
  unfold sizes. induction x as [| [e d] x IH]; intros top H; [simpl; lra |].
  change (length ((e, d) :: x)) with (S (length x)). rewrite S_INR. simpl.
  assert (T := H e d (or_introl eq_refl)). assert (J := IH top (fun e d I => H e d (or_intror I))). lra.
Qed.

Theorem match_reciprocal :
  forall t k r top, (depth t <= k)%nat -> 0 < r -> 0 <= top ->
  (forall e d, In (e, d) (keys t) -> Rabs d <= top) ->
  let x := scaled r (keys t) in let n := INR (length x) in
  let g := compound (path k) (path 4) in
  Rabs (A x - rnd (computed t * r)) <= g * M x + n * eta * (1 + g) * (1 + top + r).
Proof.
  intros t k r top D R Ht Hd x n g.
  assert (U := u_positive). assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra). assert (P := eta_positive).
  assert (G : Rabs (computed t - inner t) <= path k * inner_mass t + INR (products t) * (1 + path k) * eta)
    by exact (stated_order t k D).
  rewrite inner_keys, mass_keys, <- length_keys in G.
  destruct (scaled_row r (keys t) R) as (S1 & S2). fold x in S1, S2.
  assert (LN : INR (length (keys t)) = n) by (unfold n, x, scaled; rewrite map_length; reflexivity).
  rewrite LN in G. assert (N : 1 <= n) by (rewrite <- LN; apply n_positive).
  assert (Z := sizes_below (keys t) top Hd). rewrite LN in Z.
  assert (Z0 : 0 <= sizes (keys t)).
  { unfold sizes. clear. induction (keys t) as [| [e d] l IH]; simpl; [lra |]. assert (H := Rabs_pos d). lra. }
  assert (K1 : 1 <= (1 + u) ^ k) by apply growth. set (h := path k) in *. assert (H0 : 0 <= h) by (unfold h, path; lra).
  assert (M0 := M_positive (keys t)). assert (MX := M_positive x).
  set (T := r * M (keys t)) in *. assert (T0 : 0 <= T) by (unfold T; apply Rmult_le_pos; lra).
  set (s := computed t) in *. set (X := A (keys t)) in *. set (w := n * (1 + h) * eta) in *.
  assert (W0 : 0 <= w) by (unfold w; apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
  assert (B1 : Rabs (r * X - s * r) <= h * T + w * r).
  { replace (r * X - s * r) with (- ((s - X) * r)) by ring. rewrite Rabs_Ropp, Rabs_mult, (Rabs_right r) by lra.
    replace (h * T + w * r) with ((h * M (keys t) + w) * r) by (unfold T; ring). apply Rmult_le_compat_r; lra. }
  assert (XT : Rabs (r * X) <= T).
  { rewrite Rabs_mult, (Rabs_right r) by lra. unfold T. apply Rmult_le_compat_l; [lra | apply A_below_M]. }
  assert (B2 : Rabs (s * r) <= (1 + h) * T + w * r).
  { replace (s * r) with (r * X + - (r * X - s * r)) by ring. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
  assert (B3 := rnd_error (s * r)).
  assert (B4 : u * Rabs (s * r) <= u * ((1 + h) * T + w * r)) by (apply Rmult_le_compat_l; lra).
  set (c := (1 + h) * (1 + u) + u - 1).
  assert (C0 : 0 <= c) by (unfold c; assert (0 <= h * u) by (apply Rmult_le_pos; lra); lra).
  assert (SUM : Rabs (A x - rnd (s * r)) <= c * T + eta * sizes (keys t) + w * r * (1 + u) + eta).
  { replace (A x - rnd (s * r)) with ((A x - r * X) + (r * X - s * r) + - (rnd (s * r) - s * r)) by ring.
    eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp.
    assert (Y := Rabs_triang (A x - r * X) (r * X - s * r)). unfold c. lra. }
  assert (IV : / (1 - u) <= (1 + u) * (1 + u)).
  { apply Rmult_le_reg_r with (1 - u); [lra |]. rewrite Rinv_l by lra.
    assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (u * u <= / 1000 * u) by (apply Rmult_le_compat_r; lra).
    assert (u * (u * u) <= / 1000 * (u * u)) by (apply Rmult_le_compat_r; lra). nra. }
  assert (IP : 0 < / (1 - u)) by (apply Rinv_0_lt_compat; lra).
  assert (CG : c * / (1 - u) <= g).
  { apply Rle_trans with (c * ((1 + u) * (1 + u))); [apply Rmult_le_compat_l; assumption |].
    unfold g, compound, c. fold h. replace (path 4) with (4 * u + 6 * (u * u) + 4 * (u * (u * u)) + u * (u * (u * u))) by (unfold path; ring).
    assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
    assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra).
    assert (0 <= h * u) by (apply Rmult_le_pos; lra). assert (0 <= h * (u * u)) by (apply Rmult_le_pos; lra).
    assert (0 <= h * (u * (u * u))) by (apply Rmult_le_pos; lra). assert (0 <= h * (u * (u * (u * u)))) by (apply Rmult_le_pos; lra). nra. }
  assert (CT : c * T <= g * M x + g * (eta * sizes (keys t))).
  { apply Rle_trans with (c * ((M x + eta * sizes (keys t)) / (1 - u))); [apply Rmult_le_compat_l; assumption |].
    unfold Rdiv. replace (c * ((M x + eta * sizes (keys t)) * / (1 - u))) with (c * / (1 - u) * (M x + eta * sizes (keys t))) by ring.
    rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_r; [| exact CG].
    assert (0 <= eta * sizes (keys t)) by (apply Rmult_le_pos; lra). lra. }
  assert (G0 : h + u <= g).
  { unfold g, compound. fold h. replace (path 4) with (4 * u + 6 * (u * u) + 4 * (u * (u * u)) + u * (u * (u * u))) by (unfold path; ring).
    assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
    assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra).
    assert (0 <= h * (4 * u + 6 * (u * u) + 4 * (u * (u * u)) + u * (u * (u * u)))) by (apply Rmult_le_pos; lra). lra. }
  assert (GH : (1 + h) * (1 + u) <= 1 + g).
  { unfold g, compound. fold h. replace (path 4) with (4 * u + 6 * (u * u) + 4 * (u * (u * u)) + u * (u * (u * u))) by (unfold path; ring).
    assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
    assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra). assert (0 <= h * u) by (apply Rmult_le_pos; lra).
    assert (0 <= h * (6 * (u * u) + 4 * (u * (u * u)) + u * (u * (u * u)))) by (apply Rmult_le_pos; lra). lra. }
  assert (E1 : (1 + g) * (eta * sizes (keys t)) <= n * eta * (1 + g) * top).
  { replace (n * eta * (1 + g) * top) with ((1 + g) * (eta * (n * top))) by ring. apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; lra. }
  assert (E2 : w * r * (1 + u) <= n * eta * (1 + g) * r).
  { unfold w. replace (n * (1 + h) * eta * r * (1 + u)) with (n * eta * r * ((1 + h) * (1 + u))) by ring.
    replace (n * eta * (1 + g) * r) with (n * eta * r * (1 + g)) by ring. apply Rmult_le_compat_l; [| exact GH].
    apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]. }
  assert (E3 : eta <= n * eta * (1 + g) * 1).
  { rewrite Rmult_1_r. assert (1 * eta <= n * eta) by (apply Rmult_le_compat_r; lra).
    assert (0 <= n * eta * g) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]). lra. }
  lra.
Qed.
