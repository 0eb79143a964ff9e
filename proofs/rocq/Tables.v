(** ln 2, exp and log2 at numbers, by intervals: what the function tables of the card are held to.

    Section 5. The functions of the Interval library on whole-number significands, run by Rocq; the
    library's tactic would rest on the machine's floating point, these functions on the real numbers
    alone. *)
Require Import Reals ZArith Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Xreal Basic Sig Specific_ops Specific_stdz Interval Float_full.
From dmverify Require Import Binary32 Softmax.
Open Scope R_scope.

Module F := SpecificFloat StdZRadix2.
Module I := FloatIntervalFull F.

Definition digits := 130%Z.
Definition whole n := I.fromZ digits n.
Definition quotient n d := I.div digits (whole n) (whole d).
Definition has X x := contains (I.convert X) (Xreal x).

Lemma has_whole : forall n, has (whole n) (IZR n).
Proof. intro n. apply I.fromZ_correct. Qed.

Lemma has_ratio : forall X Y x y, y <> 0 -> has X x -> has Y y -> has (I.div digits X Y) (x / y).
Proof.
  intros X Y x y N HX HY. assert (C := I.div_correct digits X Y _ _ HX HY). unfold has. simpl in C.
  unfold Xdiv', is_zero in C. rewrite Req_bool_false in C by exact N. exact C.
Qed.

Lemma has_quotient : forall n d, d <> 0%Z -> has (quotient n d) (IZR n / IZR d).
Proof.
  intros n d H. apply has_ratio; [apply IZR_neq; exact H | apply has_whole | apply has_whole].
Qed.

Lemma has_exp : forall X x, has X x -> has (I.exp digits X) (exp x).
Proof. intros X x H. exact (I.exp_correct digits X (Xreal x) H). Qed.

Lemma has_ln : forall X x, 0 < x -> has X x -> has (I.ln digits X) (ln x).
Proof.
  intros X x P H. assert (C := I.ln_correct digits X (Xreal x) H). unfold has. simpl in C.
  unfold Xln', is_positive in C. rewrite Rlt_bool_true in C by exact P. exact C.
Qed.

Lemma has_minus : forall X Y x y, has X x -> has Y y -> has (I.sub digits X Y) (x - y).
Proof. intros X Y x y HX HY. exact (I.sub_correct digits X Y _ _ HX HY). Qed.

Lemma has_times : forall X Y x y, has X x -> has Y y -> has (I.mul digits X Y) (x * y).
Proof. intros X Y x y HX HY. exact (I.mul_correct digits X Y _ _ HX HY). Qed.

(** The one question that is asked of an interval: is it below 0. *)
Lemma negative : forall X x, has X x -> I.sign_strict X = Xlt -> x < 0.
Proof.
  intros X x H S. assert (C := I.sign_strict_correct X). rewrite S in C.
  destruct (C _ H) as (_ & L). exact L.
Qed.

Definition below X Y := match I.sign_strict (I.sub digits X Y) with Xlt => true | _ => false end.

Lemma below_correct : forall X Y x y, has X x -> has Y y -> below X Y = true -> x < y.
Proof.
  intros X Y x y HX HY B. assert (M := has_minus X Y x y HX HY). unfold below in B.
  assert (S : I.sign_strict (I.sub digits X Y) = Xlt) by (destruct (I.sign_strict (I.sub digits X Y)); congruence).
  assert (N := negative _ _ M S). lra.
Qed.

Lemma ln2_has : has (I.ln digits (whole 2)) (ln 2).
Proof. apply has_ln; [lra | apply (has_whole 2)]. Qed.

(** The enclosures that softmax-constant and lse-store were given: 34 decimals of ln 2 and of its
    inverse. *)
Theorem ln2_enclosed :
  6931471805599453094172321214581765 / 10000000000000000000000000000000000 < ln 2 <
  6931471805599453094172321214581766 / 10000000000000000000000000000000000.
Proof.
  split.
  - eapply below_correct; [apply has_quotient; lia | apply ln2_has | vm_compute; reflexivity].
  - eapply below_correct; [apply ln2_has | apply has_quotient; lia | vm_compute; reflexivity].
Qed.

Theorem log2e_enclosed :
  14426950408889634073599246810018921 / 10000000000000000000000000000000000 < / ln 2 <
  14426950408889634073599246810018922 / 10000000000000000000000000000000000.
Proof.
  assert (L := ln2_positive).
  split; apply Rmult_lt_reg_r with (ln 2); try exact L; rewrite Rinv_l by lra.
  - eapply below_correct; [apply has_times; [apply has_quotient; lia | apply ln2_has] | apply (has_whole 1) |].
    vm_compute. reflexivity.
  - eapply below_correct; [apply (has_whole 1) | apply has_times; [apply has_quotient; lia | apply ln2_has] |].
    vm_compute. reflexivity.
Qed.

(** Where a rational bound of the form n / d lies beside an expression that an interval has. *)
Lemma has_power : forall n d, d <> 0%Z -> has (I.exp digits (I.mul digits (quotient n d) (I.ln digits (whole 2)))) (Rpower 2 (IZR n / IZR d)).
Proof. intros n d H. unfold Rpower. apply has_exp, has_times; [apply has_quotient; exact H | apply ln2_has]. Qed.

(** exp2-chord: a convex function is below its chord from 0 to 2^-10, and above its tangent at 0. *)
Lemma below_chord : forall s h, 0 <= s <= 1 -> exp (s * h) <= (1 - s) + s * exp h.
Proof.
  intros s h H. set (z := s * h).
  assert (T : forall a, 1 + a <= exp a).
  { intro a. destruct (Req_dec a 0) as [-> | N]; [rewrite exp_0; lra | left; apply exp_ineq1; exact N]. }
  assert (P := exp_pos z).
  assert (A : exp z * (1 - z) <= 1).
  { replace 1 with (exp z * exp (- z)) at 2 by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    apply Rmult_le_compat_l; [lra |]. assert (Q := T (- z)). lra. }
  assert (B : exp z * (1 + (h - z)) <= exp h).
  { replace (exp h) with (exp z * exp (h - z)) by (rewrite <- exp_plus; f_equal; ring).
    apply Rmult_le_compat_l; [lra | apply T]. }
  assert (A' : (1 - s) * (exp z * (1 - z)) <= (1 - s) * 1) by (apply Rmult_le_compat_l; lra).
  assert (B' : s * (exp z * (1 + (h - z))) <= s * exp h) by (apply Rmult_le_compat_l; lra).
  replace (exp z) with ((1 - s) * (exp z * (1 - z)) + s * (exp z * (1 + (h - z)))) by (unfold z; ring). lra.
Qed.

Theorem exp2_chord : forall t, Rabs t <= / 1024 -> Rabs (Rpower 2 t - 1) <= chord * Rabs t.
Proof.
  intros t H. assert (L := ln2_positive). assert (LC := ln2_below_chord). unfold Rpower.
  destruct (Rle_or_lt 0 t) as [P | N].
  - rewrite (Rabs_right t) in * by lra.
    assert (C := below_chord (1024 * t) (1 / 1024 * ln 2) ltac:(lra)).
    replace (1024 * t * (1 / 1024 * ln 2)) with (t * ln 2) in C by field.
    assert (E : exp (1 / 1024 * ln 2) < (10240000 + 6935) / 10240000).
    { apply (below_correct (I.exp digits (I.mul digits (quotient 1 1024) (I.ln digits (whole 2)))) (quotient (10240000 + 6935) 10240000)).
      - apply (has_power 1 1024). lia.
      - replace (10240000 + 6935) with 10246935 by ring. apply (has_quotient 10246935 10240000). lia.
      - vm_compute. reflexivity. }
    assert (G : 1 <= exp (t * ln 2)).
    { rewrite <- exp_0. destruct (Req_dec t 0) as [-> | NZ]; [rewrite Rmult_0_l; lra |].
      left. apply exp_increasing. apply Rmult_lt_0_compat; lra. }
    rewrite Rabs_right by lra. unfold chord in *.
    assert (1024 * t * exp (1 / 1024 * ln 2) <= 1024 * t * ((10240000 + 6935) / 10240000)) by (apply Rmult_le_compat_l; lra).
    lra.
  - rewrite (Rabs_left t) in * by lra.
    assert (G : 1 + t * ln 2 <= exp (t * ln 2)) by (left; apply exp_ineq1; apply Rlt_not_eq; assert (0 < - t * ln 2) by (apply Rmult_lt_0_compat; lra); lra).
    assert (B : exp (t * ln 2) <= 1).
    { rewrite <- exp_0. left. apply exp_increasing. assert (0 < - t * ln 2) by (apply Rmult_lt_0_compat; lra). lra. }
    rewrite Rabs_left1 by lra. assert (- t * ln 2 <= - t * chord) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** lse-store: two roundings and the constant RN(ln 2), which is off by less than u / 16. *)
Definition ln2_32 := 11629080 / 16777216.

Lemma ln2_32_error : Rabs (ln2_32 - ln 2) <= u / 16 * ln 2.
Proof.
  assert (E := ln2_enclosed). assert (V : u = / 16777216) by (unfold u, prec; simpl; lra).
  rewrite V. unfold ln2_32. apply Rabs_le. lra.
Qed.

Theorem lse_store :
  forall x y w, Rabs (y - x) <= u * Rabs x -> Rabs (w - y * ln2_32) <= u * Rabs (y * ln2_32) ->
  Rabs (w - x * ln 2) <= 17 / 8 * u * Rabs (x * ln 2).
Proof.
  intros x y w Y W. assert (U := u_positive). assert (V : u <= / 1000) by (unfold u, prec; simpl; lra).
  assert (L := ln2_positive). assert (C := ln2_32_error).
  assert (X := Rabs_pos x). set (a := Rabs x) in *.
  assert (F : Rabs ln2_32 = ln2_32) by (apply Rabs_right; unfold ln2_32; lra).
  assert (F' : ln2_32 <= (1 + u / 16) * ln 2) by (apply Rabs_le_inv in C; lra).
  assert (Y' : Rabs y <= (1 + u) * a).
  { replace y with ((y - x) + x) by ring. eapply Rle_trans. apply Rabs_triang. unfold a in *. lra. }
  assert (M : Rabs (y * ln2_32) <= (1 + u) * (1 + u / 16) * (a * ln 2)).
  { rewrite Rabs_mult, F. replace ((1 + u) * (1 + u / 16) * (a * ln 2)) with ((1 + u) * a * ((1 + u / 16) * ln 2)) by ring.
    apply Rmult_le_compat; [apply Rabs_pos | unfold ln2_32; lra | exact Y' | exact F']. }
  assert (D : Rabs (y * ln2_32 - x * ln 2) <= (u + (1 + u) * (u / 16)) * (a * ln 2)).
  { replace (y * ln2_32 - x * ln 2) with ((y - x) * ln 2 + y * (ln2_32 - ln 2)) by ring.
    eapply Rle_trans. apply Rabs_triang. rewrite !Rabs_mult, (Rabs_right (ln 2)) by lra.
    assert (Rabs (y - x) * ln 2 <= u * a * ln 2) by (apply Rmult_le_compat_r; lra).
    assert (Rabs y * Rabs (ln2_32 - ln 2) <= (1 + u) * a * (u / 16 * ln 2)) by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
    replace ((u + (1 + u) * (u / 16)) * (a * ln 2)) with (u * a * ln 2 + (1 + u) * a * (u / 16 * ln 2)) by ring. lra. }
  replace (w - x * ln 2) with ((w - y * ln2_32) + (y * ln2_32 - x * ln 2)) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right (ln 2)) by lra. fold a.
  assert (P : 0 <= a * ln 2) by (apply Rmult_le_pos; lra).
  assert (u * Rabs (y * ln2_32) <= u * ((1 + u) * (1 + u / 16) * (a * ln 2))) by (apply Rmult_le_compat_l; lra).
  assert (Q : (u * ((1 + u) * (1 + u / 16)) + (u + (1 + u) * (u / 16))) * (a * ln 2) <= 17 / 8 * u * (a * ln 2)).
  { apply Rmult_le_compat_r; [exact P |].
    assert (u * u <= / 1000 * u) by (apply Rmult_le_compat_r; lra).
    assert (0 <= u * u) by (apply Rmult_le_pos; lra).
    assert (u * (u * u) <= / 1000 * (u * u)) by (apply Rmult_le_compat_r; lra).
    replace (u * ((1 + u) * (1 + u / 16)) + (u + (1 + u) * (u / 16)))
      with (2 * u + u / 16 + (17 / 16 + / 16) * (u * u) + u * (u * u) / 16) by field. lra. }
  replace (a * ln 2) with (a * ln 2) by ring. lra.
Qed.

(** ex2-error, lg2-error, lg2-near-one and rcp-error where the card errs most: more than the
    control, less than the constant. x is the input and y what the card answered. *)
Lemma relative_error : forall p y a b, 0 < p -> 0 <= a -> (1 + a) * p < y < (1 + b) * p -> a < Rabs (y / p - 1) < b.
Proof.
  intros p y a b P A H. assert (I : 0 < / p) by (apply Rinv_0_lt_compat; exact P).
  assert (L : a < y / p - 1).
  { apply Rmult_lt_reg_r with p; [exact P |]. replace ((y / p - 1) * p) with (y - p) by (field; lra). lra. }
  assert (G : y / p - 1 < b).
  { apply Rmult_lt_reg_r with p; [exact P |]. replace ((y / p - 1) * p) with (y - p) by (field; lra). lra. }
  rewrite Rabs_right; lra.
Qed.

Lemma relative_error_below : forall p y a b, 0 < p -> 0 <= a -> (1 - b) * p < y < (1 - a) * p -> a < Rabs (y / p - 1) < b.
Proof.
  intros p y a b P A H. assert (L : y / p - 1 < - a).
  { apply Rmult_lt_reg_r with p; [exact P |]. replace ((y / p - 1) * p) with (y - p) by (field; lra). lra. }
  assert (G : - b < y / p - 1).
  { apply Rmult_lt_reg_r with p; [exact P |]. replace ((y / p - 1) * p) with (y - p) by (field; lra). lra. }
  rewrite Rabs_left; lra.
Qed.

Theorem ex2_worst :
  let x := 524381 / 8388608 in let y := 1095009 / 1048576 in
  1458 / 10000000000 < Rabs (y / Rpower 2 x - 1) < 1459 / 10000000000.
Proof.
  intros x y. apply relative_error; [unfold Rpower; apply exp_pos | lra |]. split.
  - replace (1 + 1458 / 10000000000) with (10000001458 / 10000000000) by lra.
    eapply below_correct; [apply has_times; [apply has_quotient; lia | apply has_power; lia] | apply has_quotient; lia | vm_compute; reflexivity].
  - replace (1 + 1459 / 10000000000) with (10000001459 / 10000000000) by lra.
    eapply below_correct; [apply has_quotient; lia | apply has_times; [apply has_quotient; lia | apply has_power; lia] | vm_compute; reflexivity].
Qed.

Lemma log2_has : forall n d, (0 < n)%Z -> (0 < d)%Z ->
  has (I.div digits (I.ln digits (quotient n d)) (I.ln digits (whole 2))) (log2 (IZR n / IZR d)).
Proof.
  intros n d N D. assert (N' := IZR_lt _ _ N). assert (D' := IZR_lt _ _ D).
  assert (P : 0 < IZR n / IZR d) by (apply Rdiv_lt_0_compat; assumption).
  assert (L := ln2_positive). unfold log2. apply has_ratio; [lra | | apply ln2_has].
  apply has_ln; [exact P | apply has_quotient; lia].
Qed.

Theorem lg2_worst :
  let x := 7995375 / 16777216 in let y := - 8969649 / 8388608 in
  2292 / 10000000000 < Rabs (y / log2 x - 1) < 2293 / 10000000000.
Proof.
  intros x y. replace (y / log2 x) with (8969649 / 8388608 / - log2 x).
  2: { assert (N : log2 x < 0); [| unfold y; field; lra].
       eapply below_correct; [apply log2_has; lia | apply (has_whole 0) | vm_compute; reflexivity]. }
  assert (L : 1 - 2293 / 10000000000 = 9999997707 / 10000000000) by lra.
  assert (G : 1 - 2292 / 10000000000 = 9999997708 / 10000000000) by lra.
  assert (Z : - log2 x = 0 - log2 x) by ring.
  assert (H : has (I.sub digits (whole 0) (I.div digits (I.ln digits (quotient 7995375 16777216)) (I.ln digits (whole 2)))) (- log2 x)).
  { rewrite Z. apply has_minus; [apply (has_whole 0) | apply log2_has; lia]. }
  apply relative_error_below.
  - eapply below_correct; [apply (has_whole 0) | exact H | vm_compute; reflexivity].
  - clear H. lra.
  - rewrite L, G. split.
    + eapply below_correct; [apply has_times; [apply has_quotient; lia | exact H] | apply has_quotient; lia | vm_compute; reflexivity].
    + eapply below_correct; [apply has_quotient; lia | apply has_times; [apply has_quotient; lia | exact H] | vm_compute; reflexivity].
Qed.

Theorem lg2_worst_near_one :
  let x := 8871935 / 16777216 in let y := - 7710661 / 8388608 in
  2152 / 10000000000 < Rabs (y - log2 x) < 2153 / 10000000000.
Proof.
  intros x y. assert (H : has (I.sub digits (quotient (- 7710661) 8388608) (I.div digits (I.ln digits (quotient 8871935 16777216)) (I.ln digits (whole 2)))) (y - log2 x)).
  { unfold y, x. apply has_minus; [apply (has_quotient (- 7710661) 8388608); lia | apply log2_has; lia]. }
  assert (A : 2152 / 10000000000 < y - log2 x) by (eapply below_correct; [apply has_quotient; lia | exact H | vm_compute; reflexivity]).
  assert (B : y - log2 x < 2153 / 10000000000) by (eapply below_correct; [exact H | apply has_quotient; lia | vm_compute; reflexivity]).
  rewrite Rabs_right; lra.
Qed.

Theorem rcp_worst :
  let x := 15531517 / 713623846352979940529142984724747568191373312 in
  let y := 45946817442861122549900177542530203648 in
  9829 / 100000000000 < Rabs (y * x - 1) < 9830 / 100000000000.
Proof. intros x y. unfold x, y. destruct (Rle_or_lt 0 (45946817442861122549900177542530203648 * (15531517 / 713623846352979940529142984724747568191373312) - 1)).
  - rewrite Rabs_right; lra.
  - rewrite Rabs_left; lra.
Qed.
