(** Two sharper readings of an order: by the roundings on a term's way, and by its largest term.

    Section 2. A stated order has few roundings on the way of each term (sum-tree-height). A sum of
    which one term is most errs by little more than what is added to it (sum-dominated). *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner.
Open Scope R_scope.

Lemma growth : forall k, 1 <= (1 + u) ^ k.
Proof. intro k. apply pow_R1_Rle. assert (U := u_positive). lra. Qed.

Lemma growth_le : forall k l, (k <= l)%nat -> (1 + u) ^ k <= (1 + u) ^ l.
Proof. intros k l H. apply Rle_pow; [assert (U := u_positive); lra | exact H]. Qed.

Lemma growth_S : forall k, (1 + u) ^ S k = (1 + u) * (1 + u) ^ k.
Proof. reflexivity. Qed.

(** The most roundings that a term passes. *)
Fixpoint depth (t : order) : nat :=
  match t with
  | Product _ _ => 1
  | Fused t _ _ => S (depth t)
  | Added l r => S (Nat.max (depth l) (depth r))
  end.

Lemma mass_0 : forall t, 0 <= inner_mass t.
Proof.
  induction t as [p d | t IH p d | l IHl r IHr]; simpl; [apply Rabs_pos | | lra].
  assert (H := Rabs_pos (p * d)). lra.
Qed.

Lemma inner_below : forall t, Rabs (inner t) <= inner_mass t.
Proof.
  induction t as [p d | t IH p d | l IHl r IHr]; simpl; [lra | |];
    (eapply Rle_trans; [apply Rabs_triang | lra]).
Qed.

(** One rounding more on the way: [g] is the growth so far, [z] what underflow has taken. *)
Lemma one_more : forall s x m g z, 1 <= g -> Rabs x <= m -> Rabs (s - x) <= (g - 1) * m + z ->
  u * Rabs s + Rabs (s - x) <= ((1 + u) * g - 1) * m + (1 + u) * z.
Proof.
  intros s x m g z Hg Hx H. assert (U := u_positive).
  assert (S : Rabs s <= g * m + z).
  { replace s with (x + (s - x)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (u * Rabs s <= u * (g * m + z)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Theorem stated_order :
  forall t k, (depth t <= k)%nat -> let n := INR (products t) in
  Rabs (computed t - inner t) <= path k * inner_mass t + n * (1 + path k) * eta.
Proof.
  assert (Core : forall t, Rabs (computed t - inner t) <=
    ((1 + u) ^ depth t - 1) * inner_mass t + INR (products t) * (1 + u) ^ depth t * eta).
  { assert (U := u_positive). assert (E := eta_positive).
    induction t as [p d | t IH p d | l IHl r IHr].
    - simpl. assert (H := rnd_error (p * d)). assert (0 <= u * eta) by (apply Rmult_le_pos; lra).
      replace ((1 + u) * 1 - 1) with u by ring. lra.
    - change (depth (Fused t p d)) with (S (depth t)). rewrite growth_S. simpl. rewrite plus_INR. simpl (INR 1).
      set (g := (1 + u) ^ depth t) in *. assert (G : 1 <= g) by apply growth.
      assert (D := one_more _ _ _ _ _ G (inner_below t) IH).
      assert (R := rnd_error (computed t + p * d)).
      assert (T : u * Rabs (computed t + p * d) <= u * Rabs (computed t) + u * Rabs (p * d)).
      { rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [lra | apply Rabs_triang]. }
      assert (P := Rabs_pos (p * d)).
      assert (GG : (1 + u) * 1 <= (1 + u) * g) by (apply Rmult_le_compat_l; lra).
      assert (K : u * Rabs (p * d) <= ((1 + u) * g - 1) * Rabs (p * d)).
      { apply Rmult_le_compat_r; [exact P | lra]. }
      assert (L : 1 * eta <= (1 + u) * g * eta) by (apply Rmult_le_compat_r; lra).
      replace (rnd (computed t + p * d) - (inner t + p * d))
        with ((rnd (computed t + p * d) - (computed t + p * d)) + (computed t - inner t)) by ring.
      eapply Rle_trans. apply Rabs_triang.
      replace (((1 + u) * g - 1) * (inner_mass t + Rabs (p * d)) + (INR (products t) + 1) * ((1 + u) * g) * eta)
        with (((1 + u) * g - 1) * inner_mass t + (1 + u) * (INR (products t) * g * eta)
              + ((1 + u) * g - 1) * Rabs (p * d) + (1 + u) * g * eta) by ring. lra.
    - change (depth (Added l r)) with (S (Nat.max (depth l) (depth r))). rewrite growth_S. simpl. rewrite plus_INR.
      set (g := (1 + u) ^ Nat.max (depth l) (depth r)).
      assert (G : 1 <= g) by apply growth.
      assert (Ml := mass_0 l). assert (Mr := mass_0 r).
      assert (Nl : 0 <= INR (products l)) by apply pos_INR. assert (Nr : 0 <= INR (products r)) by apply pos_INR.
      assert (W : forall t, (depth t <= Nat.max (depth l) (depth r))%nat ->
        Rabs (computed t - inner t) <= ((1 + u) ^ depth t - 1) * inner_mass t + INR (products t) * (1 + u) ^ depth t * eta ->
        Rabs (computed t - inner t) <= (g - 1) * inner_mass t + INR (products t) * g * eta).
      { intros t D H. assert (Q := growth_le _ _ D). fold g in Q. assert (Mt := mass_0 t).
        assert (Nt : 0 <= INR (products t)) by apply pos_INR.
        assert (((1 + u) ^ depth t - 1) * inner_mass t <= (g - 1) * inner_mass t) by (apply Rmult_le_compat_r; lra).
        assert (INR (products t) * (1 + u) ^ depth t * eta <= INR (products t) * g * eta).
        { apply Rmult_le_compat_r; [lra |]. apply Rmult_le_compat_l; lra. } lra. }
      assert (Hl := W l (Nat.le_max_l _ _) IHl). assert (Hr := W r (Nat.le_max_r _ _) IHr).
      assert (Dl := one_more _ _ _ _ _ G (inner_below l) Hl). assert (Dr := one_more _ _ _ _ _ G (inner_below r) Hr).
      assert (R := rnd_plus_error _ _ (computed_format l) (computed_format r)).
      assert (T : u * Rabs (computed l + computed r) <= u * Rabs (computed l) + u * Rabs (computed r)).
      { rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [lra | apply Rabs_triang]. }
      replace (rnd (computed l + computed r) - (inner l + inner r))
        with ((rnd (computed l + computed r) - (computed l + computed r)) + (computed l - inner l) + (computed r - inner r)) by ring.
      eapply Rle_trans. apply Rabs_triang.
      assert (Z := Rabs_triang (rnd (computed l + computed r) - (computed l + computed r)) (computed l - inner l)).
      replace (((1 + u) * g - 1) * (inner_mass l + inner_mass r) + (INR (products l) + INR (products r)) * ((1 + u) * g) * eta)
        with (((1 + u) * g - 1) * inner_mass l + (1 + u) * (INR (products l) * g * eta)
              + (((1 + u) * g - 1) * inner_mass r + (1 + u) * (INR (products r) * g * eta))) by ring. lra. }
  intros t k H n. eapply Rle_trans. apply Core. unfold path.
  assert (Q := growth_le _ _ H). assert (M := mass_0 t). assert (E := eta_positive).
  assert (N : 0 <= n) by apply pos_INR.
  replace (1 + ((1 + u) ^ k - 1)) with ((1 + u) ^ k) by ring.
  apply Rplus_le_compat.
  - apply Rmult_le_compat_r; lra.
  - apply Rmult_le_compat_r; [lra |]. apply Rmult_le_compat_l; assumption.
Qed.

(** The same for sums, which do not underflow. *)
Fixpoint height (t : tree) : nat :=
  match t with Leaf _ => 0 | Node l r => S (Nat.max (height l) (height r)) end.

Theorem stated_sum :
  forall t k, terms_in_format t -> (height t <= k)%nat -> Rabs (sum t - total t) <= path k * mass t.
Proof.
  assert (Core : forall t, terms_in_format t -> Rabs (sum t - total t) <= ((1 + u) ^ height t - 1) * mass t).
  { assert (U := u_positive). induction t as [x | l IHl r IHr]; intro F.
    - simpl. replace (x - x) with 0 by ring. rewrite Rabs_R0. lra.
    - destruct F as (Fl & Fr). specialize (IHl Fl). specialize (IHr Fr).
      change (height (Node l r)) with (S (Nat.max (height l) (height r))). rewrite growth_S. simpl.
      set (g := (1 + u) ^ Nat.max (height l) (height r)). assert (G : 1 <= g) by apply growth.
      assert (Ml := mass_positive l). assert (Mr := mass_positive r).
      assert (W : forall t, (height t <= Nat.max (height l) (height r))%nat ->
        Rabs (sum t - total t) <= ((1 + u) ^ height t - 1) * mass t ->
        Rabs (sum t - total t) <= (g - 1) * mass t + 0).
      { intros t D H. assert (Q := growth_le _ _ D). fold g in Q. assert (Mt := mass_positive t).
        assert (((1 + u) ^ height t - 1) * mass t <= (g - 1) * mass t) by (apply Rmult_le_compat_r; lra). lra. }
      assert (Hl := W l (Nat.le_max_l _ _) IHl). assert (Hr := W r (Nat.le_max_r _ _) IHr).
      assert (Dl := one_more _ _ _ _ _ G (total_below_mass l) Hl). assert (Dr := one_more _ _ _ _ _ G (total_below_mass r) Hr).
      assert (R := rnd_plus_error _ _ (sum_format l Fl) (sum_format r Fr)).
      assert (T : u * Rabs (sum l + sum r) <= u * Rabs (sum l) + u * Rabs (sum r)).
      { rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [lra | apply Rabs_triang]. }
      replace (rnd (sum l + sum r) - (total l + total r))
        with ((rnd (sum l + sum r) - (sum l + sum r)) + (sum l - total l) + (sum r - total r)) by ring.
      eapply Rle_trans. apply Rabs_triang.
      assert (Z := Rabs_triang (rnd (sum l + sum r) - (sum l + sum r)) (sum l - total l)). lra. }
  intros t k F H. eapply Rle_trans. apply Core. exact F. unfold path.
  assert (Q := growth_le _ _ H). assert (M := mass_positive t). apply Rmult_le_compat_r; lra.
Qed.

(** The way of the largest term from its leaf to the root: at each node it meets a subtree. *)
Inductive spine := Top (x : R) | Join (s : spine) (t : tree).

Fixpoint whole (s : spine) : tree := match s with Top x => Leaf x | Join s t => Node (whole s) t end.

Fixpoint others (s : spine) : R := match s with Top _ => 0 | Join s t => others s + mass t end.

Fixpoint capped c (t : tree) : R :=
  match t with Leaf x => Rmin c (Rabs x) | Node l r => capped c l + capped c r end.

Fixpoint others_capped c (s : spine) : R :=
  match s with Top _ => 0 | Join s t => others_capped c s + capped c t end.

Lemma capped_sum : forall c t, 0 <= c -> Rmin c (mass t) <= capped c t /\ 0 <= capped c t.
Proof.
  intros c t Hc. induction t as [x | l (IHl & Pl) r (IHr & Pr)]; simpl.
  - split; [lra |]. apply Rmin_glb; [exact Hc | apply Rabs_pos].
  - split; [| lra]. assert (Ml := mass_positive l). assert (Mr := mass_positive r).
    unfold Rmin in *. repeat destruct Rle_dec; lra.
Qed.

(** sum-dominated: any order, n terms, S their sizes, T those of all but one. *)
Theorem dominated :
  forall s, terms_in_format (whole s) -> let n := INR (leaves (whole s)) in let S := mass (whole s) in
  let g := n * u in
  Rabs (sum (whole s) - total (whole s)) <=
    (1 + g) * others_capped (u * (1 + g) * S) s + g * others s.
Proof.
  assert (Core : forall N S s, terms_in_format (whole s) -> INR (leaves (whole s)) <= N -> mass (whole s) <= S ->
    let g := N * u in
    Rabs (sum (whole s) - total (whole s)) <= (1 + g) * others_capped (u * (1 + g) * S) s + g * others s).
  { intros N S s. assert (U := u_positive). induction s as [x | s IH t]; intros F HN HS g.
    - simpl. replace (x - x) with 0 by ring. rewrite Rabs_R0. lra.
    - simpl in F, HN, HS. destruct F as (Fs & Ft). rewrite plus_INR in HN.
      assert (Ls := le_INR _ _ (leaves_positive (whole s))). assert (Lt := le_INR _ _ (leaves_positive t)). simpl (INR 1) in Ls, Lt.
      assert (Ms := mass_positive (whole s)). assert (Mt := mass_positive t).
      assert (H : Rabs (sum (whole s) - total (whole s)) <= (1 + g) * others_capped (u * (1 + g) * S) s + g * others s).
      { apply IH; [exact Fs | lra | lra]. }
      assert (G : 0 <= g) by (unfold g; apply Rmult_le_pos; lra).
      assert (B : forall t, terms_in_format t -> INR (leaves t) <= N -> Rabs (sum t - total t) <= g * mass t /\ Rabs (sum t) <= (1 + g) * mass t).
      { intros t' F' L'. assert (E := sum_any_tree t' F'). assert (M' := mass_positive t').
        assert (K : (INR (leaves t') - 1) * u * mass t' <= g * mass t').
        { apply Rmult_le_compat_r; [exact M' |]. unfold g. apply Rmult_le_compat_r; lra. }
        split; [lra |]. assert (T := total_below_mass t').
        replace (sum t') with ((sum t' - total t') + total t') by ring. eapply Rle_trans. apply Rabs_triang. lra. }
      destruct (B (whole s) Fs) as (_ & As); [lra |]. destruct (B t Ft) as (Et & At); [lra |].
      assert (E1 := rnd_candidate (sum (whole s)) (sum t) (sum_format _ Fs)).
      assert (E2 := rnd_plus_error _ _ (sum_format _ Fs) (sum_format _ Ft)).
      set (e := rnd (sum (whole s) + sum t) - (sum (whole s) + sum t)) in *.
      assert (Q : Rabs (sum (whole s) + sum t) <= (1 + g) * S).
      { eapply Rle_trans. apply Rabs_triang.
        assert ((1 + g) * (mass (whole s) + mass t) <= (1 + g) * S) by (apply Rmult_le_compat_l; lra). lra. }
      assert (E3 : Rabs e <= u * ((1 + g) * S)).
      { eapply Rle_trans. exact E2. apply Rmult_le_compat_l; lra. }
      assert (S0 : 0 <= S) by lra.
      set (c := u * (1 + g) * S). assert (C0 : 0 <= c) by (unfold c; apply Rmult_le_pos; [apply Rmult_le_pos; lra | exact S0]).
      destruct (capped_sum c t C0) as (K & _).
      assert (E4 : Rabs e <= (1 + g) * Rmin c (mass t)).
      { assert (Rabs e <= c) by (unfold c; lra).
        assert (c <= (1 + g) * c) by nra.
        unfold Rmin. destruct Rle_dec; lra. }
      assert (E5 : (1 + g) * Rmin c (mass t) <= (1 + g) * capped c t) by (apply Rmult_le_compat_l; lra).
      simpl. fold c in H |- *.
      replace (rnd (sum (whole s) + sum t) - (total (whole s) + total t))
        with (e + (sum (whole s) - total (whole s)) + (sum t - total t)) by (unfold e; ring).
      eapply Rle_trans. apply Rabs_triang. assert (Z := Rabs_triang e (sum (whole s) - total (whole s))).
      rewrite !Rmult_plus_distr_l. lra. }
  intros s F n S g. apply Core; [exact F | unfold n; lra | unfold S; lra].
Qed.
