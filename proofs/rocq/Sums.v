(** Sums of binary32 numbers in any order: sum-any-tree.

    Section 2. A summation order is a binary tree whose leaves are the terms; each inner node is one
    rounded addition. Every order that a kernel can choose is one: chains, lanes, butterflies. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32.
Open Scope R_scope.

Inductive tree := Leaf (x : R) | Node (l r : tree).

Fixpoint leaves (t : tree) : nat :=
  match t with Leaf _ => 1 | Node l r => leaves l + leaves r end.

(** The exact sum. *)
Fixpoint total (t : tree) : R :=
  match t with Leaf x => x | Node l r => total l + total r end.

(** The sum of the magnitudes. *)
Fixpoint mass (t : tree) : R :=
  match t with Leaf x => Rabs x | Node l r => mass l + mass r end.

(** What the kernel gets. *)
Fixpoint sum (t : tree) : R :=
  match t with Leaf x => x | Node l r => rnd (sum l + sum r) end.

Fixpoint terms_in_format (t : tree) : Prop :=
  match t with Leaf x => binary32 x | Node l r => terms_in_format l /\ terms_in_format r end.

Lemma leaves_positive : forall t, (1 <= leaves t)%nat.
Proof. induction t; simpl; lia. Qed.

Lemma mass_positive : forall t, 0 <= mass t.
Proof. induction t; simpl; [apply Rabs_pos | lra]. Qed.

Lemma total_below_mass : forall t, Rabs (total t) <= mass t.
Proof.
  induction t; simpl; [lra |].
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Lemma sum_format : forall t, terms_in_format t -> binary32 (sum t).
Proof. destruct t; simpl; intro H; [exact H | apply rnd_format]. Qed.

(** One addition, in numbers: m1, m2 are the masses, a, b the counts less one, d the new error.
    Jeannerod and Rump's argument (SIAM J. Matrix Anal. Appl. 34, 2013): the new error is small
    relative to the sum, and no larger than either summand. *)
Lemma one_addition :
  forall a b m1 m2 d, 0 <= a -> 0 <= b -> 0 <= m1 -> 0 <= m2 ->
  d <= u * (m1 + a * u * m1 + m2 + b * u * m2) ->
  d <= m1 + a * u * m1 -> d <= m2 + b * u * m2 ->
  d <= (b + 1) * u * m1 + (a + 1) * u * m2.
Proof.
  intros a b m1 m2 d Ha Hb H1 H2 Hd Hd1 Hd2.
  assert (U := u_positive). assert (U1 := u_below_1).
  assert (Hum1 : 0 <= u * m1) by (apply Rmult_le_pos; lra).
  assert (Hum2 : 0 <= u * m2) by (apply Rmult_le_pos; lra).
  assert (Haum1 : 0 <= a * (u * m1)) by (apply Rmult_le_pos; lra).
  assert (Hbum2 : 0 <= b * (u * m2)) by (apply Rmult_le_pos; lra).
  assert (Hbum1 : 0 <= b * (u * m1)) by (apply Rmult_le_pos; lra).
  assert (Haum2 : 0 <= a * (u * m2)) by (apply Rmult_le_pos; lra).
  replace ((b + 1) * u * m1 + (a + 1) * u * m2)
    with (b * (u * m1) + u * m1 + a * (u * m2) + u * m2) by ring.
  replace (m1 + a * u * m1) with (m1 + a * (u * m1)) in Hd1 by ring.
  replace (m2 + b * u * m2) with (m2 + b * (u * m2)) in Hd2 by ring.
  replace (u * (m1 + a * u * m1 + m2 + b * u * m2))
    with (u * m1 + u * (a * (u * m1)) + u * m2 + u * (b * (u * m2))) in Hd by ring.
  destruct (Rle_or_lt m2 (u * m1)) as [S2 | L2].
  - (* the right summand is tiny: the error is at most that summand *)
    assert (u * m2 <= u * m1).
    { apply Rmult_le_compat_l; [lra |]. assert (u * m1 <= 1 * m1) by (apply Rmult_le_compat_r; lra). lra. }
    assert (b * (u * m2) <= b * (u * m1)) by (apply Rmult_le_compat_l; lra).
    lra.
  - destruct (Rle_or_lt m1 (u * m2)) as [S1 | L1].
    + assert (u * m1 <= u * m2).
      { apply Rmult_le_compat_l; [lra |]. assert (u * m2 <= 1 * m2) by (apply Rmult_le_compat_r; lra). lra. }
      assert (a * (u * m1) <= a * (u * m2)) by (apply Rmult_le_compat_l; lra).
      lra.
    + (* neither is: the relative error does it *)
      assert (u * (a * (u * m1)) <= a * (u * m2)).
      { replace (u * (a * (u * m1))) with (a * (u * (u * m1))) by ring.
        apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; lra. }
      assert (u * (b * (u * m2)) <= b * (u * m1)).
      { replace (u * (b * (u * m2))) with (b * (u * (u * m2))) by ring.
        apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; lra. }
      lra.
Qed.

(** sum-any-tree: n - 1 additions, whatever their order, are off by (n - 1) u times the mass. *)
Theorem sum_any_tree :
  forall t, terms_in_format t -> Rabs (sum t - total t) <= (INR (leaves t) - 1) * u * mass t.
Proof.
  induction t as [x | l IHl r IHr]; simpl; intro H.
  - replace (x - x) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct H as [Hl Hr]. specialize (IHl Hl). specialize (IHr Hr).
    assert (Fl := sum_format l Hl). assert (Fr := sum_format r Hr).
    set (a := INR (leaves l) - 1) in *. set (b := INR (leaves r) - 1) in *.
    assert (Ha : 0 <= a).
    { unfold a. assert (L := le_INR _ _ (leaves_positive l)). simpl in L. lra. }
    assert (Hb : 0 <= b).
    { unfold b. assert (L := le_INR _ _ (leaves_positive r)). simpl in L. lra. }
    assert (Ml := mass_positive l). assert (Mr := mass_positive r).
    assert (Sl : Rabs (sum l) <= mass l + a * u * mass l).
    { replace (sum l) with ((sum l - total l) + total l) by ring.
      eapply Rle_trans. apply Rabs_triang. assert (T := total_below_mass l). lra. }
    assert (Sr : Rabs (sum r) <= mass r + b * u * mass r).
    { replace (sum r) with ((sum r - total r) + total r) by ring.
      eapply Rle_trans. apply Rabs_triang. assert (T := total_below_mass r). lra. }
    set (d := rnd (sum l + sum r) - (sum l + sum r)).
    assert (D : Rabs d <= (b + 1) * u * mass l + (a + 1) * u * mass r).
    { apply one_addition; try assumption.
      - unfold d. eapply Rle_trans. apply rnd_plus_error; assumption.
        apply Rmult_le_compat_l; [assert (U := u_positive); lra |].
        eapply Rle_trans. apply Rabs_triang. lra.
      - unfold d. rewrite Rplus_comm at 1. rewrite (Rplus_comm (sum l) (sum r)).
        eapply Rle_trans. apply rnd_candidate. exact Fr. exact Sl.
      - unfold d. eapply Rle_trans. apply rnd_candidate. exact Fl. exact Sr. }
    rewrite plus_INR.
    replace (rnd (sum l + sum r) - (total l + total r))
      with ((sum l - total l) + (sum r - total r) + d) by (unfold d; ring).
    eapply Rle_trans. apply Rabs_triang.
    assert (T := Rabs_triang (sum l - total l) (sum r - total r)).
    replace ((INR (leaves l) + INR (leaves r) - 1) * u * (mass l + mass r))
      with (a * u * mass l + b * u * mass r + ((b + 1) * u * mass l + (a + 1) * u * mass r))
      by (unfold a, b; ring).
    lra.
Qed.
