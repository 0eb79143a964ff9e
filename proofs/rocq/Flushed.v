(** Sums of which every addition flushes its subnormal results to 0: sum-flush-to-zero. Section 2.

    A sum of two numbers below the normal ones is exact, so that a flush takes less than the least
    normal number, [least], and nothing else is lost with it. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums.
Open Scope R_scope.

Definition least := bpow radix2 (emin + prec - 1).
Definition flush x := if Rlt_dec (Rabs (rnd x)) least then 0 else rnd x.

Fixpoint flushed (t : tree) : R :=
  match t with Leaf x => x | Node l r => flush (flushed l + flushed r) end.

Lemma flush_format : forall x, binary32 (flush x).
Proof. intro x. unfold flush. destruct Rlt_dec; [apply format_0 | apply rnd_format]. Qed.

Lemma flushed_format : forall t, terms_in_format t -> binary32 (flushed t).
Proof. destruct t; simpl; intro H; [exact H | apply flush_format]. Qed.

(** One addition: as without flushing, or what was flushed. *)
Lemma one_flush :
  forall x y, binary32 x -> binary32 y ->
  flush (x + y) = rnd (x + y) \/ Rabs (flush (x + y) - (x + y)) <= least.
Proof.
  intros x y X Y. unfold flush. destruct (Rlt_dec (Rabs (rnd (x + y))) least) as [L | L]; [right | left; reflexivity].
  replace (0 - (x + y)) with (- (x + y)) by ring. rewrite Rabs_Ropp.
  destruct (Rle_or_lt (Rabs (x + y)) least) as [S | G]; [exact S |]. exfalso. apply (Rlt_not_le _ _ L).
  unfold rnd. apply abs_round_ge_generic; [apply fexp_valid | apply valid_rnd_N | | lra].
  unfold least. apply generic_format_bpow. unfold fexp, FLT_exp, prec, emin. lia.
Qed.

(** In numbers: counts less one a, b of the sides, masses m, k, the new error d. *)
Lemma added_error :
  forall a b m k f d, 0 <= a -> 0 <= b -> 0 <= m -> 0 <= k -> 0 <= f -> (a + b + 2) * u <= 1 ->
  (b = 0 \/ 1 <= b) -> (a = 0 \/ 1 <= a) ->
  d <= u * (m + (a * u * m + a * f) + k + (b * u * k + b * f)) ->
  d <= m + (a * u * m + a * f) -> d <= k + (b * u * k + b * f) ->
  (a * u * m + a * f) + (b * u * k + b * f) + d <= (a + b + 1) * (u * (m + k) + f).
Proof.
  intros a b m k f d A B M K F N B' A' D Dm Dk. assert (U := u_positive). assert (U1 := u_below_1).
  assert (um : 0 <= u * m) by (apply Rmult_le_pos; lra). assert (uk : 0 <= u * k) by (apply Rmult_le_pos; lra).
  assert (aum : 0 <= a * (u * m)) by (apply Rmult_le_pos; lra). assert (buk : 0 <= b * (u * k)) by (apply Rmult_le_pos; lra).
  assert (auk : 0 <= a * (u * k)) by (apply Rmult_le_pos; lra). assert (bum : 0 <= b * (u * m)) by (apply Rmult_le_pos; lra).
  assert (au : a * u <= 1) by (assert (0 <= b * u) by (apply Rmult_le_pos; lra); lra).
  assert (bu : b * u <= 1) by (assert (0 <= a * u) by (apply Rmult_le_pos; lra); lra).
  assert (af : 0 <= a * f) by (apply Rmult_le_pos; lra). assert (bf : 0 <= b * f) by (apply Rmult_le_pos; lra).
  assert (uf : (a * u + b * u) * f <= 1 * f) by (apply Rmult_le_compat_r; lra).
  replace ((a + b + 1) * (u * (m + k) + f))
    with (a * (u * m) + b * (u * m) + u * m + (a * (u * k) + b * (u * k) + u * k) + (a * f + b * f + f)) by ring.
  replace (a * u * m) with (a * (u * m)) in * by ring. replace (b * u * k) with (b * (u * k)) in * by ring.
  replace (u * (m + (a * (u * m) + a * f) + k + (b * (u * k) + b * f)))
    with (u * m + (a * u) * (u * m) + u * k + (b * u) * (u * k) + (a * u + b * u) * f) in D by ring.
  assert (P : a * u * (u * m) <= 1 * (u * m)) by (apply Rmult_le_compat_r; lra).
  assert (Q : b * u * (u * k) <= 1 * (u * k)) by (apply Rmult_le_compat_r; lra).
  destruct B' as [B' | B']; destruct A' as [A' | A'].
  - subst a b. lra.
  - (* the right side is one number *)
    subst b. assert (R : 1 * (u * k) <= a * (u * k)) by (apply Rmult_le_compat_r; lra).
    destruct (Rle_or_lt k (u * m)) as [S | L]; [lra |].
    assert (T : a * u * (u * m) <= a * (u * k)).
    { replace (a * u * (u * m)) with (a * (u * (u * m))) by ring. apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; lra. }
    lra.
  - subst a. assert (R : 1 * (u * m) <= b * (u * m)) by (apply Rmult_le_compat_r; lra).
    destruct (Rle_or_lt m (u * k)) as [S | L]; [lra |].
    assert (T : b * u * (u * k) <= b * (u * m)).
    { replace (b * u * (u * k)) with (b * (u * (u * k))) by ring. apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; lra. }
    lra.
  - assert (R : 1 * (u * k) <= a * (u * k)) by (apply Rmult_le_compat_r; lra).
    assert (R' : 1 * (u * m) <= b * (u * m)) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** sum-flush-to-zero: premise n u <= 1, so 2^24 terms. *)
Theorem flushed_sum :
  forall t, terms_in_format t -> INR (leaves t) * u <= 1 ->
  Rabs (flushed t - total t) <= (INR (leaves t) - 1) * (u * mass t + least).
Proof.
  assert (U := u_positive). assert (L0 : 0 < least) by apply bpow_gt_0.
  induction t as [x | l IHl r IHr]; simpl; intros H N.
  - replace (x - x) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct H as (Hl & Hr). rewrite plus_INR in N |- *.
    assert (Pl := le_INR _ _ (leaves_positive l)). assert (Pr := le_INR _ _ (leaves_positive r)). simpl in Pl, Pr.
    set (a := INR (leaves l) - 1). set (b := INR (leaves r) - 1).
    assert (ul : 0 <= INR (leaves l) * u) by (apply Rmult_le_pos; lra).
    assert (ur : 0 <= INR (leaves r) * u) by (apply Rmult_le_pos; lra).
    assert (El := IHl Hl ltac:(lra)). assert (Er := IHr Hr ltac:(lra)). fold a in El. fold b in Er.
    assert (Fl := flushed_format l Hl). assert (Fr := flushed_format r Hr).
    assert (Ml := mass_positive l). assert (Mr := mass_positive r).
    assert (Tl := total_below_mass l). assert (Tr := total_below_mass r).
    replace (a * (u * mass l + least)) with (a * u * mass l + a * least) in El by ring.
    replace (b * (u * mass r + least)) with (b * u * mass r + b * least) in Er by ring.
    assert (Sl : Rabs (flushed l) <= mass l + (a * u * mass l + a * least)).
    { replace (flushed l) with ((flushed l - total l) + total l) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    assert (Sr : Rabs (flushed r) <= mass r + (b * u * mass r + b * least)).
    { replace (flushed r) with ((flushed r - total r) + total r) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    replace (INR (leaves l) + INR (leaves r) - 1) with (a + b + 1) by (unfold a, b; ring).
    replace (flush (flushed l + flushed r) - (total l + total r))
      with ((flushed l - total l) + (flushed r - total r) + (flush (flushed l + flushed r) - (flushed l + flushed r))) by ring.
    eapply Rle_trans. apply Rabs_triang. assert (T := Rabs_triang (flushed l - total l) (flushed r - total r)).
    assert (Ha : 0 <= a) by (unfold a; lra). assert (Hb : 0 <= b) by (unfold b; lra).
    destruct (one_flush _ _ Fl Fr) as [E | E].
    + assert (Cases : forall n, (1 <= n)%nat -> INR n - 1 = 0 \/ 1 <= INR n - 1).
      { intros n Hn. destruct (Nat.eq_dec n 1) as [-> | D]; [left; simpl; ring | right].
        assert (G : (2 <= n)%nat) by lia. apply le_INR in G. simpl in G. lra. }
      rewrite E. set (d := rnd (flushed l + flushed r) - (flushed l + flushed r)).
      assert (D : a * u * mass l + a * least + (b * u * mass r + b * least) + Rabs d <= (a + b + 1) * (u * (mass l + mass r) + least)).
      { apply added_error; try assumption; try lra.
        - unfold a, b. lra.
        - apply Cases, leaves_positive.
        - apply Cases, leaves_positive.
        - unfold d. eapply Rle_trans. apply rnd_plus_error; assumption. apply Rmult_le_compat_l; [lra |].
          eapply Rle_trans. apply Rabs_triang. lra.
        - unfold d. rewrite (Rplus_comm (flushed l)). eapply Rle_trans. apply rnd_candidate. exact Fr. exact Sl.
        - unfold d. eapply Rle_trans. apply rnd_candidate. exact Fl. exact Sr. }
      lra.
    + replace ((a + b + 1) * (u * (mass l + mass r) + least))
        with (a * u * mass l + a * least + (b * u * mass r + b * least) + least
              + (b + 1) * (u * mass l) + (a + 1) * (u * mass r)) by ring.
      assert (0 <= (b + 1) * (u * mass l)) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
      assert (0 <= (a + 1) * (u * mass r)) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
      lra.
Qed.
