(** FP8 wgmma in any order, from 0: wgmma-order-free and wgmma-partials for chains of any length.

    Section 5. No partial sum leaves [-N-, N+], the sums of the negative and of the positive
    products; each product is truncated once, the accumulator once an instruction but the first. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import TensorCore NaturalChain.
Import ListNotations.
Open Scope R_scope.

Definition rise (l : list R) := TensorCore.total (map (fun x => Rmax x 0) l).
Definition fall (l : list R) := TensorCore.total (map (fun x => Rmax (- x) 0) l).
Definition inside a b x := - a <= x <= b.

Lemma toward_0 : forall a b x y, 0 <= a -> 0 <= b -> inside a b x ->
  Rabs (y - x) <= Rabs x -> Rabs y <= Rabs x -> inside a b y.
Proof.
  unfold inside. intros a b x y A B X N L. destruct (Rle_or_lt 0 x) as [P | P].
  - rewrite (Rabs_right x) in N, L by lra. apply Rabs_le_inv in N. apply Rabs_le_inv in L. lra.
  - rewrite (Rabs_left x) in N, L by lra. apply Rabs_le_inv in N. apply Rabs_le_inv in L. lra.
Qed.

Lemma align_inside : forall q a b x, 0 < q -> 0 <= a -> 0 <= b -> inside a b x -> inside a b (align q x).
Proof.
  intros q a b x Q A B X. apply toward_0 with x; try assumption; [apply align_towards_0 | apply align_below]; exact Q.
Qed.

Lemma cut_inside : forall a b x, 0 <= a -> 0 <= b -> inside a b x -> inside a b (cut x).
Proof.
  intros a b x A B X. apply toward_0 with x; try assumption; [| apply cut_below].
  assert (N := cut_near x). assert (P := Rabs_pos x). lra.
Qed.

Lemma aligned_inside :
  forall q l, 0 < q ->
  0 <= rise l /\ 0 <= fall l /\ inside (fall l) (rise l) (TensorCore.total (map (align q) l)).
Proof.
  intros q l Q. unfold rise, fall, inside. induction l as [| x l (R & F & I)]; simpl; [lra |].
  assert (P := Rmax_r x 0). assert (P' := Rmax_l x 0). assert (N := Rmax_r (- x) 0). assert (N' := Rmax_l (- x) 0).
  assert (X : inside (Rmax (- x) 0) (Rmax x 0) (align q x)).
  { apply align_inside; try lra. unfold inside. lra. }
  unfold inside in X. lra.
Qed.

(** One instruction keeps the partial sum between. *)
Theorem partial_sums :
  forall W c l a b, 0 < W -> 0 <= a -> 0 <= b -> inside a b c ->
  inside (a + fall l) (b + rise l) (step (quantum W) c l) /\
  inside (a + fall l) (b + rise l) (align (quantum W) c + TensorCore.total (map (align (quantum W)) l)).
Proof.
  intros W c l a b HW A B C. assert (Q : 0 < quantum W) by (unfold quantum; lra).
  destruct (aligned_inside (quantum W) l Q) as (R & F & I).
  assert (K := align_inside (quantum W) a b c Q A B C).
  assert (T : inside (a + fall l) (b + rise l) (align (quantum W) c + TensorCore.total (map (align (quantum W)) l))).
  { unfold inside in *. lra. }
  split; [| exact T]. unfold step. simpl map. simpl TensorCore.total. apply cut_inside; try lra. exact T.
Qed.

(** What the products lose, each as [lost] has it; instructions' own W0 are at most W. *)
Fixpoint loses W (lost : R -> R) (steps : list instruction) : Prop :=
  match steps with
  | [] => True
  | (W0, W1, l) :: steps =>
      0 < W0 <= W /\ (forall x, In x l -> Rabs (align (quantum W0) x - x) <= lost x) /\ loses W lost steps
  end.

Definition sum_lost (lost : R -> R) l := TensorCore.total (map lost l).

Lemma lost_in_all :
  forall q lost l, (forall x, In x l -> Rabs (align q x - x) <= lost x) ->
  Rabs (TensorCore.total (map (align q) l) - TensorCore.total l) <= sum_lost lost l.
Proof.
  intros q lost l. unfold sum_lost. induction l as [| x l IH]; intro H; simpl.
  - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - assert (X := H x (or_introl eq_refl)). assert (T := IH (fun y I => H y (or_intror I))).
    replace (align q x + TensorCore.total (map (align q) l) - (x + TensorCore.total l))
      with ((align q x - x) + (TensorCore.total (map (align q) l) - TensorCore.total l)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Lemma one_more :
  forall W0 W lost l c k B a b, 0 < W0 <= W -> (forall x, In x l -> Rabs (align (quantum W0) x - x) <= lost x) ->
  0 <= a -> 0 <= b -> inside a b c -> a + fall l <= B -> b + rise l <= B ->
  Rabs (align (quantum W0) c - c) <= k ->
  Rabs (step (quantum W0) c l - (c + TensorCore.total l)) <= sum_lost lost l + k + / 8192 * B.
Proof.
  intros W0 W lost l c k B a b HW H A A' C F R K.
  assert (L := lost_in_all _ lost l H).
  destruct (partial_sums W0 c l a b (proj1 HW) A A' C) as (_ & T).
  set (t := align (quantum W0) c + TensorCore.total (map (align (quantum W0)) l)) in *.
  assert (TB : Rabs t <= B) by (unfold inside in T; apply Rabs_le; lra).
  assert (S : step (quantum W0) c l = cut t) by reflexivity. rewrite S.
  assert (N := cut_near t).
  replace (cut t - (c + TensorCore.total l))
    with ((cut t - t) + ((align (quantum W0) c - c) + (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l)))
    by (unfold t; ring).
  eapply Rle_trans. apply Rabs_triang.
  assert (G := Rabs_triang (align (quantum W0) c - c) (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l)). lra.
Qed.

Lemma sizes_positive : forall steps, 0 <= every rise steps /\ 0 <= every fall steps.
Proof.
  assert (Q : 0 < 1) by lra.
  induction steps as [| [[W0 W1] l] steps (R & F)]; simpl; [lra |].
  destruct (aligned_inside 1 l Q) as (R' & F' & _). lra.
Qed.

Lemma from_an_accumulator :
  forall W lost B steps c a b, 0 < W -> loses W lost steps -> 0 <= a -> 0 <= b -> inside a b c ->
  a + every fall steps <= B -> b + every rise steps <= B ->
  let K := INR (length steps) in
  Rabs (natural_chain c steps - (c + every TensorCore.total steps)) <=
    every (sum_lost lost) steps + K * quantum W + K * (/ 8192 * B).
Proof.
  intros W lost B steps c a b HW. revert c a b.
  induction steps as [| [[W0 W1] l] steps IH]; intros c a b L A A' C F R K; unfold K; clear K.
  - simpl. replace (c - (c + 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct L as (H0 & H & L). simpl every in *. change (length ((W0, W1, l) :: steps)) with (S (length steps)).
    rewrite S_INR. simpl natural_chain. destruct (sizes_positive steps) as (PR & PF).
    assert (Q : 0 < quantum W0) by (unfold quantum; lra). assert (QW : quantum W0 <= quantum W) by (unfold quantum; lra).
    destruct (aligned_inside 1 l Rlt_0_1) as (R' & F' & _).
    destruct (partial_sums W0 c l a b (proj1 H0) A A' C) as (S & _).
    assert (O := one_more W0 W lost l c (quantum W0) B a b H0 H A A' C ltac:(lra) ltac:(lra) (align_near _ c Q)).
    set (s := step (quantum W0) c l) in *.
    assert (I := IH s (a + fall l) (b + rise l) L ltac:(lra) ltac:(lra) S ltac:(lra) ltac:(lra)). cbv zeta in I.
    replace (natural_chain s steps - (c + (TensorCore.total l + every TensorCore.total steps)))
      with ((natural_chain s steps - (s + every TensorCore.total steps)) + (s - (c + TensorCore.total l))) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** wgmma-order-free. Premise: B bounds N+ and N-, W the power of two of every exponent. *)
Theorem order_free :
  forall W lost B first steps, 0 < W -> loses W lost (first :: steps) ->
  every fall (first :: steps) <= B -> every rise (first :: steps) <= B ->
  let L := INR (length (first :: steps)) in
  Rabs (natural_chain 0 (first :: steps) - every TensorCore.total (first :: steps)) <=
    every (sum_lost lost) (first :: steps) + (L - 1) * quantum W + L * (/ 8192 * B).
Proof.
  intros W lost B [[W0 W1] l] steps HW (H0 & H & L) F R K. unfold K. clear K. simpl every in *.
  change (length ((W0, W1, l) :: steps)) with (S (length steps)). rewrite S_INR. simpl natural_chain.
  destruct (sizes_positive steps) as (PR & PF). destruct (aligned_inside 1 l Rlt_0_1) as (R' & F' & _).
  assert (C : inside 0 0 0) by (unfold inside; lra).
  assert (Z : Rabs (align (quantum W0) 0 - 0) <= 0).
  { unfold align. replace (0 / quantum W0) with 0 by (unfold Rdiv; ring). rewrite Ztrunc_IZR.
    replace (0 * quantum W0 - 0) with 0 by ring. rewrite Rabs_R0. lra. }
  destruct (partial_sums W0 0 l 0 0 (proj1 H0) ltac:(lra) ltac:(lra) C) as (S & _).
  assert (O := one_more W0 W lost l 0 0 B 0 0 H0 H ltac:(lra) ltac:(lra) C ltac:(lra) ltac:(lra) Z).
  set (s := step (quantum W0) 0 l) in *.
  assert (I := from_an_accumulator W lost B steps s (0 + fall l) (0 + rise l) HW L ltac:(lra) ltac:(lra) S ltac:(lra) ltac:(lra)).
  cbv zeta in I.
  replace (natural_chain s steps - (TensorCore.total l + every TensorCore.total steps))
    with ((natural_chain s steps - (s + every TensorCore.total steps)) + (s - (0 + TensorCore.total l))) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.
