(** Row sums of dS, before the cast: any delta, matched, renormalized, shifted.

    Sections 2 and 3. A row is an [order] of its products P_j dP_j: its terms are the keys, its shape
    is how delta sums them. dS_j = rnd(P_j * rnd(dP_j - delta)). Premises: P_j, dP_j and delta are
    binary32 numbers, nothing overflows. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner.
Import ListNotations.
Open Scope R_scope.

Definition row := list (R * R).

Fixpoint keys (t : order) : row :=
  match t with
  | Product p d => [(p, d)]
  | Fused t p d => keys t ++ [(p, d)]
  | Added l r => keys l ++ keys r
  end.

Fixpoint over (f : R -> R -> R) (r : row) : R :=
  match r with [] => 0 | (p, d) :: r => f p d + over f r end.

Lemma over_app : forall f r s, over f (r ++ s) = over f r + over f s.
Proof.
  intros f r s. induction r as [| [p d] r IH]; simpl; [ring | rewrite IH; ring].
Qed.

Definition A := over (fun p d => p * d).
Definition M := over (fun p d => Rabs (p * d)).
Definition B := over (fun p _ => p).
Definition spread delta := over (fun p d => Rabs (p * (d - delta))).
Definition dS delta p d := rnd (p * rnd (d - delta)).
Definition residual delta := over (dS delta).

Lemma inner_keys : forall t, inner t = A (keys t).
Proof.
  unfold A. induction t as [p d | t IH p d | l IHl r IHr]; simpl.
  - ring.
  - rewrite over_app. simpl. rewrite IH. ring.
  - rewrite over_app, IHl, IHr. ring.
Qed.

Lemma mass_keys : forall t, inner_mass t = M (keys t).
Proof.
  unfold M. induction t as [p d | t IH p d | l IHl r IHr]; simpl.
  - ring.
  - rewrite over_app. simpl. rewrite IH. ring.
  - rewrite over_app, IHl, IHr. ring.
Qed.

Lemma length_keys : forall t, length (keys t) = products t.
Proof.
  induction t as [p d | t IH p d | l IHl r IHr]; simpl; [reflexivity | |].
  - rewrite app_length, IH. reflexivity.
  - rewrite app_length, IHl, IHr. reflexivity.
Qed.

Fixpoint all_binary32 (r : row) : Prop :=
  match r with [] => True | (p, d) :: r => binary32 p /\ binary32 d /\ all_binary32 r end.

Lemma format_opp : forall x, binary32 x -> binary32 (- x).
Proof. intros x H. apply generic_format_opp. exact H. Qed.

(** elem-error: two roundings, of which only the product can underflow. *)
Theorem elem_error :
  forall delta p d, binary32 delta -> binary32 d ->
  Rabs (dS delta p d - p * (d - delta)) <= (2 * u + u * u) * Rabs (p * (d - delta)) + eta.
Proof.
  intros delta p d Fd Fp. unfold dS.
  assert (U := u_positive).
  assert (D : Rabs (rnd (d - delta) - (d - delta)) <= u * Rabs (d - delta)).
  { unfold Rminus. apply rnd_plus_error; [exact Fp | apply format_opp; exact Fd]. }
  set (x := d - delta) in *. set (y := rnd x) in *.
  assert (P := rnd_error (p * y)).
  assert (Y : Rabs (p * y - p * x) <= u * Rabs (p * x)).
  { replace (p * y - p * x) with (p * (y - x)) by ring. rewrite Rabs_mult, (Rabs_mult p x).
    replace (u * (Rabs p * Rabs x)) with (Rabs p * (u * Rabs x)) by ring.
    apply Rmult_le_compat_l; [apply Rabs_pos | exact D]. }
  assert (Z : Rabs (p * y) <= (1 + u) * Rabs (p * x)).
  { replace (p * y) with ((p * y - p * x) + p * x) by ring.
    eapply Rle_trans. apply Rabs_triang. lra. }
  assert (u * Rabs (p * y) <= u * ((1 + u) * Rabs (p * x))) by (apply Rmult_le_compat_l; lra).
  replace (rnd (p * y) - p * x) with ((rnd (p * y) - p * y) + (p * y - p * x)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  replace ((2 * u + u * u) * Rabs (p * x))
    with (u * ((1 + u) * Rabs (p * x)) + u * Rabs (p * x)) by ring. lra.
Qed.

Definition elem_bound delta r := (2 * u + u * u) * spread delta r + INR (length r) * eta.

Lemma elem_sum :
  forall delta r, binary32 delta -> all_binary32 r ->
  Rabs (residual delta r - (A r - delta * B r)) <= elem_bound delta r.
Proof.
  intros delta r Fd. unfold residual, A, B, elem_bound, spread.
  induction r as [| [p d] r IH]; intro F.
  - simpl. replace (0 - (0 - delta * 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct F as (_ & Fp & F). specialize (IH F). assert (E := elem_error delta p d Fd Fp).
    change (length ((p, d) :: r)) with (S (length r)). rewrite S_INR. simpl.
    replace (dS delta p d + over (dS delta) r -
             (p * d + over (fun p d => p * d) r - delta * (p + over (fun p _ => p) r)))
      with ((dS delta p d - p * (d - delta)) +
            (over (dS delta) r - (over (fun p d => p * d) r - delta * over (fun p _ => p) r))) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** Any delta: what it misses of A, what P misses of 1, and the roundings of dS. *)
Theorem any_delta :
  forall delta r, binary32 delta -> all_binary32 r ->
  Rabs (residual delta r) <= Rabs (A r - delta) + Rabs delta * Rabs (1 - B r) + elem_bound delta r.
Proof.
  intros delta r Fd F. assert (E := elem_sum delta r Fd F).
  replace (residual delta r)
    with ((residual delta r - (A r - delta * B r)) + ((A r - delta) + delta * (1 - B r))) by ring.
  eapply Rle_trans. apply Rabs_triang.
  assert (T := Rabs_triang (A r - delta) (delta * (1 - B r))). rewrite Rabs_mult in T. lra.
Qed.

(** matched: delta is the row's own inner product, in any order. *)
Theorem matched :
  forall t, let r := keys t in let n := INR (length r) in let delta := computed t in
  all_binary32 r ->
  Rabs (residual delta r) <=
    n * u * M r + n * (1 + n * u) * eta + Rabs delta * Rabs (1 - B r) + elem_bound delta r.
Proof.
  intros t r n delta F.
  assert (D := any_delta delta r (computed_format t) F).
  assert (E := inner_any_order t). rewrite inner_keys, mass_keys in E.
  unfold n, r in *. rewrite length_keys in *. unfold delta in *.
  rewrite Rabs_minus_sym in E. lra.
Qed.

(** A quotient of two computed sums against the quotient that the row asks for. *)
Theorem quotient_residue :
  forall a a' b b' g e, 0 < b -> 0 <= g < 1 -> Rabs (a' - a) <= e -> Rabs (b' - b) <= g * b ->
  Rabs (a - rnd (a' / b') * b) <= e + (Rabs a + e) * ((g + u) / (1 - g)) + eta * b.
Proof.
  intros a a' b b' g e Hb Hg Ha Hb'.
  assert (U := u_positive).
  assert (L : (1 - g) * b <= b').
  { apply Rabs_le_inv in Hb'. lra. }
  assert (P : 0 < (1 - g) * b) by (apply Rmult_lt_0_compat; lra).
  assert (Q : 0 < b') by lra.
  assert (H := rnd_error (a' / b')). set (q := rnd (a' / b')) in *.
  assert (X : Rabs (a' - q * b) <= Rabs a' * ((g + u) / (1 - g)) + eta * b).
  { replace (a' - q * b) with (a' / b' * (b' - b) + - ((q - a' / b') * b)) by (field; lra).
    eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp, !Rabs_mult, (Rabs_right b) by lra.
    assert (S : Rabs (a' / b') * Rabs (b' - b) <= Rabs (a' / b') * (g * b))
      by (apply Rmult_le_compat_l; [apply Rabs_pos | exact Hb']).
    assert (T : Rabs (q - a' / b') * b <= (u * Rabs (a' / b') + eta) * b)
      by (apply Rmult_le_compat_r; lra).
    assert (V : Rabs (a' / b') * b <= Rabs a' / (1 - g)).
    { unfold Rdiv. rewrite Rabs_mult, Rabs_inv, (Rabs_right b') by lra.
      rewrite Rmult_assoc. apply Rmult_le_compat_l; [apply Rabs_pos |].
      apply Rmult_le_reg_r with (b' * (1 - g)); [apply Rmult_lt_0_compat; lra |].
      replace (/ b' * b * (b' * (1 - g))) with ((1 - g) * b) by (field; lra).
      replace (/ (1 - g) * (b' * (1 - g))) with b' by (field; lra). exact L. }
    assert (W : (g + u) * (Rabs (a' / b') * b) <= (g + u) * (Rabs a' / (1 - g)))
      by (apply Rmult_le_compat_l; lra).
    replace (Rabs a' * ((g + u) / (1 - g))) with ((g + u) * (Rabs a' / (1 - g))) by (field; lra).
    replace ((g + u) * (Rabs (a' / b') * b))
      with (Rabs (a' / b') * (g * b) + u * Rabs (a' / b') * b) in W by ring. lra. }
  assert (Y : Rabs a' <= Rabs a + e).
  { replace a' with ((a' - a) + a) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (K : 0 <= (g + u) / (1 - g)).
  { apply Rmult_le_pos; [lra |]. left. apply Rinv_0_lt_compat. lra. }
  assert (Z : Rabs a' * ((g + u) / (1 - g)) <= (Rabs a + e) * ((g + u) / (1 - g)))
    by (apply Rmult_le_compat_r; assumption).
  replace (a - q * b) with ((a' - q * b) + - (a' - a)) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra.
Qed.

(** renormalized: delta = rnd(A^ / B^), with B^ a sum of the P in any order, off by at most g B.
    There is no term in 1 - B. *)
Theorem renormalized :
  forall t b' g, let r := keys t in let n := INR (length r) in
  let delta := rnd (computed t / b') in
  all_binary32 r -> 0 < B r -> 0 <= g < 1 -> Rabs (b' - B r) <= g * B r ->
  let e := n * u * M r + n * (1 + n * u) * eta in
  Rabs (residual delta r) <=
    e + (Rabs (A r) + e) * ((g + u) / (1 - g)) + eta * B r + elem_bound delta r.
Proof.
  intros t b' g r n delta F Hb Hg Hb' e.
  assert (S := elem_sum delta r (rnd_format _) F).
  assert (E := inner_any_order t). rewrite inner_keys, mass_keys in E.
  assert (Q : Rabs (A r - delta * B r) <= e + (Rabs (A r) + e) * ((g + u) / (1 - g)) + eta * B r).
  { apply quotient_residue; try assumption. unfold e, n, r. rewrite length_keys. exact E. }
  replace (residual delta r) with ((residual delta r - (A r - delta * B r)) + (A r - delta * B r)) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** shifted: the same with t_j = rnd(dP_j - d0) for dP_j; what dS subtracts is then small where the
    row is sharp, and so is the bound: every term carries P_j t_j, none carries delta or dP. *)
Definition moved d0 (r : row) : row := map (fun k => (fst k, rnd (snd k - d0))) r.

Theorem shifted :
  forall d0 t r b' g, keys t = moved d0 r -> let m := moved d0 r in let n := INR (length m) in
  let lo := rnd (computed t / b') in
  all_binary32 m -> 0 < B r -> 0 <= g < 1 -> Rabs (b' - B r) <= g * B r ->
  let e := n * u * M m + n * (1 + n * u) * eta in
  Rabs (residual lo m) <=
    e + (Rabs (A m) + e) * ((g + u) / (1 - g)) + eta * B r + elem_bound lo m.
Proof.
  intros d0 t r b' g K m n lo F Hb Hg Hb' e.
  assert (EB : B m = B r).
  { unfold m, moved, B. clear. induction r as [| [p d] r IH]; simpl; [reflexivity | rewrite IH; reflexivity]. }
  assert (T := renormalized t b' g). simpl in T. rewrite K in T. fold m in T.
  rewrite EB in T. apply T; assumption.
Qed.
