(** A moved logit moves a share by at most exp(2 e) - 1; the ledgers of consistent and associated with
    each term at its bound. Sections 1 and 5. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Ledger Closed.
Open Scope R_scope.

Definition share n (x : nat -> R) j := exp (x j) / Sum n (fun i => exp (x i)).

Lemma Sum_exp_positive : forall n x, (0 < n)%nat -> 0 < Sum n (fun i => exp (x i)).
Proof.
  induction n as [| n IH]; intros x H; [lia |]. simpl. assert (P := exp_pos (x n)).
  destruct n as [| n]; [simpl; lra |]. assert (Q := IH x ltac:(lia)). lra.
Qed.

Lemma exp_le : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y H. destruct (Req_dec x y) as [-> | N]; [lra | left; apply exp_increasing; lra]. Qed.

Lemma exp_moved : forall x y e, Rabs (x - y) <= e -> exp x <= exp e * exp y.
Proof. intros x y e H. rewrite <- exp_plus. apply exp_le. apply Rabs_le_inv in H. lra. Qed.

(** Numerator and denominator are each off by a factor of at most exp(e). *)
Theorem moved_share :
  forall n x y e j, (j < n)%nat -> (forall i, (i < n)%nat -> Rabs (x i - y i) <= e) ->
  Rabs (share n x j - share n y j) <= (exp (2 * e) - 1) * share n y j.
Proof.
  intros n x y e j J H. unfold share.
  assert (X := Sum_exp_positive n x ltac:(lia)). assert (Y := Sum_exp_positive n y ltac:(lia)).
  set (SX := Sum n (fun i => exp (x i))) in *. set (SY := Sum n (fun i => exp (y i))) in *.
  assert (E0 : 0 <= e) by (assert (Q := H j J); assert (R := Rabs_pos (x j - y j)); lra).
  assert (Ep := exp_pos e). assert (E1 : 1 <= exp e) by (rewrite <- exp_0; apply exp_le; lra).
  assert (A : SX <= exp e * SY).
  { unfold SX, SY. rewrite <- Sum_scale. apply Sum_le. intros i I. apply exp_moved, H, I. }
  assert (B : SY <= exp e * SX).
  { unfold SX, SY. rewrite <- Sum_scale. apply Sum_le. intros i I. apply exp_moved. rewrite Rabs_minus_sym. apply H, I. }
  assert (C := exp_moved (x j) (y j) e (H j J)).
  assert (D := exp_moved (y j) (x j) e ltac:(rewrite Rabs_minus_sym; exact (H j J))).
  assert (Px := exp_pos (x j)). assert (Py := exp_pos (y j)).
  assert (E2 : exp (2 * e) = exp e * exp e) by (replace (2 * e) with (e + e) by ring; apply exp_plus).
  assert (S : 0 < exp (y j) / SY) by (apply Rdiv_lt_0_compat; assumption).
  assert (U : exp (x j) / SX <= exp (2 * e) * (exp (y j) / SY)).
  { apply Rmult_le_reg_r with (SX * SY); [apply Rmult_lt_0_compat; assumption |].
    replace (exp (x j) / SX * (SX * SY)) with (exp (x j) * SY) by (field; lra).
    replace (exp (2 * e) * (exp (y j) / SY) * (SX * SY)) with (exp e * exp (y j) * (exp e * SX)) by (rewrite E2; field; lra).
    apply Rmult_le_compat; lra. }
  assert (L : exp (y j) / SY <= exp (2 * e) * (exp (x j) / SX)).
  { apply Rmult_le_reg_r with (SX * SY); [apply Rmult_lt_0_compat; assumption |].
    replace (exp (y j) / SY * (SX * SY)) with (exp (y j) * SX) by (field; lra).
    replace (exp (2 * e) * (exp (x j) / SX) * (SX * SY)) with (exp e * exp (x j) * (exp e * SY)) by (rewrite E2; field; lra).
    apply Rmult_le_compat; lra. }
  set (p := exp (x j) / SX) in *. set (q := exp (y j) / SY) in *. set (t := exp (2 * e)) in *.
  assert (T : 1 <= t) by (unfold t; rewrite <- exp_0; apply exp_le; lra).
  apply Rabs_le. split; [| lra].
  (* q - p <= (t - 1) p, and p is at most q where that is not already enough *)
  destruct (Rle_or_lt q p) as [G | G]; [assert (0 <= (t - 1) * q) by (apply Rmult_le_pos; lra); lra |].
  assert ((t - 1) * p <= (t - 1) * q) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** The ledger of consistent: that of stale without grad. *)
Theorem consistent_bound :
  forall n m (P P' dP dS dO' O O32 : nat -> R) Vf Vb delta eP eA eO eD eB eX eE,
  (forall j, (j < n)%nat -> Rabs (P j - P' j) <= eP * Rabs (P j)) ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' Vf k) <= eA k) ->
  (forall k, (k < m)%nat -> Rabs (O k - O32 k) <= eO k) ->
  Rabs (delta - Sum m (fun k => dO' k * O k)) <= eD -> Rabs (1 - B_row n P) <= eB ->
  (forall j, (j < n)%nat -> Rabs (dP j - dP_exact m dO' Vb j) <= eX j) ->
  Rabs (elem n P dP dS delta) <= eE -> (forall j k, (j < n)%nat -> (k < m)%nat -> Vb j k = Vf j k) ->
  Rabs (R_row n dS) <=
    eP * Sum n (fun j => Rabs (P j) * Rabs (dP_exact m dO' Vb j)) + Sum m (fun k => Rabs (dO' k) * eA k) +
    Sum m (fun k => Rabs (dO' k) * eO k) + eD + Rabs delta * eB + Sum n (fun j => Rabs (P j) * eX j) + eE.
Proof.
  intros n m P P' dP dS dO' O O32 Vf Vb delta eP eA eO eD eB eX eE HP HA HO HD HB HX HE HV.
  assert (S := stale_bound n m P P' dP dS dO' dO' O O32 Vf Vb delta eP 0 0 eB eD eE eA eO eX HP).
  assert (G : forall k, (k < m)%nat -> Rabs (dO' k - dO' k) <= 0 * Rabs (dO' k) + 0).
  { intros k _. replace (dO' k - dO' k) with 0 by ring. rewrite Rabs_R0. lra. }
  specialize (S G HA HO HD HB HX HE HV).
  rewrite (Sum_ext m (fun k => (0 * Rabs (dO' k) + 0) * Rabs (O_exact n P' Vf k)) (fun _ => 0)) in S by (intros; ring).
  rewrite Sum_0 in S. lra.
Qed.

(** The ledger of associated: the forward's own shares, O before its store. *)
Theorem associated_bound :
  forall n m (P dP dS dO' O32 : nat -> R) V delta eA eD eB eX eE,
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P V k) <= eA k) ->
  Rabs (delta - Sum m (fun k => dO' k * O32 k)) <= eD -> Rabs (1 - B_row n P) <= eB ->
  (forall j, (j < n)%nat -> Rabs (dP j - dP_exact m dO' V j) <= eX j) ->
  Rabs (elem n P dP dS delta) <= eE ->
  Rabs (R_row n dS) <=
    Sum m (fun k => Rabs (dO' k) * eA k) + eD + Rabs delta * eB + Sum n (fun j => Rabs (P j) * eX j) + eE.
Proof.
  intros n m P dP dS dO' O32 V delta eA eD eB eX eE HA HD HB HX HE.
  assert (S := consistent_bound n m P P dP dS dO' O32 O32 V V delta 0 eA (fun _ => 0) eD eB eX eE).
  assert (Z : forall x, Rabs (x - x) <= 0) by (intro x; replace (x - x) with 0 by ring; rewrite Rabs_R0; lra).
  assert (Z1 : forall j, (j < n)%nat -> Rabs (P j - P j) <= 0 * Rabs (P j)) by (intros; rewrite Rmult_0_l; apply Z).
  specialize (S Z1 HA (fun k _ => Z (O32 k)) HD HB HX HE (fun j k _ _ => eq_refl)).
  cbv beta in S. rewrite (Sum_ext m (fun k => Rabs (dO' k) * 0) (fun _ => 0)) in S by (intros; ring). rewrite Sum_0 in S. lra.
Qed.
