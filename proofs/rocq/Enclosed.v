(** Enclosures: by induction over the steps of a kernel, every number that it may have.

    Section 6. A kernel is a list of steps, each of which reads the call's numbers and the results of
    the steps before it; a sum may be taken in any order, a function may answer whatever its error
    allows, a choice may fall either way. An enclosure is an interval for each number, or none where
    nothing is known. If the intervals hold the call's numbers they hold the results of every step,
    whatever the kernel does where it is free. *)
Require Import Reals Lra Lia List Permutation.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner.
Import ListNotations.
Open Scope R_scope.

Definition interval := (R * R)%type.
Definition couple := (interval * interval)%type.
Definition inside (x : R) (i : interval) := fst i <= x <= snd i.

(** * One operation *)

Lemma rnd_monotone : forall x y, x <= y -> rnd x <= rnd y.
Proof. intros x y H. unfold rnd. apply round_le; [apply fexp_valid | apply valid_rnd_N | exact H]. Qed.

Definition sum_of (i j : interval) : interval := (rnd (fst i + fst j), rnd (snd i + snd j)).
Definition difference_of (i j : interval) : interval := (rnd (fst i - snd j), rnd (snd i - fst j)).

Theorem sum_enclosed : forall x y i j, inside x i -> inside y j -> inside (rnd (x + y)) (sum_of i j).
Proof. intros x y i j (A & B) (C & D). split; apply rnd_monotone; lra. Qed.

Theorem difference_enclosed :
  forall x y i j, inside x i -> inside y j -> inside (rnd (x - y)) (difference_of i j).
Proof. intros x y i j (A & B) (C & D). split; apply rnd_monotone; simpl; lra. Qed.

Definition least (a b c d : R) := Rmin (Rmin a b) (Rmin c d).
Definition most (a b c d : R) := Rmax (Rmax a b) (Rmax c d).
Definition low_corner (i j : interval) := least (fst i * fst j) (fst i * snd j) (snd i * fst j) (snd i * snd j).
Definition high_corner (i j : interval) := most (fst i * fst j) (fst i * snd j) (snd i * fst j) (snd i * snd j).

Lemma between_ends : forall x a b y, a <= x <= b -> Rmin (a * y) (b * y) <= x * y <= Rmax (a * y) (b * y).
Proof.
  intros x a b y (A & B). destruct (Rle_or_lt 0 y) as [P | N].
  - assert (a * y <= x * y) by (apply Rmult_le_compat_r; lra). assert (x * y <= b * y) by (apply Rmult_le_compat_r; lra).
    rewrite Rmin_left, Rmax_right by lra. lra.
  - assert (b * y <= x * y) by (apply Rmult_le_compat_neg_l with (r := y) in B; lra).
    assert (x * y <= a * y) by (apply Rmult_le_compat_neg_l with (r := y) in A; lra).
    rewrite Rmin_right, Rmax_left by lra. lra.
Qed.

Lemma product_between : forall x y i j, inside x i -> inside y j -> low_corner i j <= x * y <= high_corner i j.
Proof.
  intros x y (a, b) (c, d) X Y. unfold inside, low_corner, high_corner, least, most in *. simpl in *.
  assert (P := between_ends x a b y X).
  assert (Q := between_ends y c d a Y). assert (R := between_ends y c d b Y).
  rewrite !(Rmult_comm y), !(Rmult_comm c), !(Rmult_comm d) in Q, R.
  unfold Rmin, Rmax in *. repeat destruct Rle_dec; lra.
Qed.

Definition product_of (i j : interval) : interval := (rnd (low_corner i j), rnd (high_corner i j)).
Definition fused_of (i j k : interval) : interval := (rnd (low_corner i j + fst k), rnd (high_corner i j + snd k)).

Theorem product_enclosed : forall x y i j, inside x i -> inside y j -> inside (rnd (x * y)) (product_of i j).
Proof. intros x y i j X Y. destruct (product_between x y i j X Y). split; apply rnd_monotone; assumption. Qed.

Theorem fused_enclosed :
  forall x y z i j k, inside x i -> inside y j -> inside z k -> inside (rnd (x * y + z)) (fused_of i j k).
Proof.
  intros x y z i j k X Y (A & B). destruct (product_between x y i j X Y). split; apply rnd_monotone; lra.
Qed.

(** A divisor that is not 0: the ends of its reciprocals. *)
Definition inverted (j : interval) : interval := (/ snd j, / fst j).
Definition quotient_of (i j : interval) : interval := product_of i (inverted j).

Lemma inverse_between : forall y j, inside y j -> 0 < fst j \/ snd j < 0 -> inside (/ y) (inverted j).
Proof.
  intros y (c, d) (A & B) H. unfold inside, inverted in *. simpl in *. destruct H as [P | N].
  - split; apply Rinv_le; lra.
  - assert (E : forall z, z < 0 -> / z = - / - z) by (intros z Z; field; lra).
    rewrite (E y), (E c), (E d) by lra. split; apply Ropp_le_contravar, Rinv_le; lra.
Qed.

Theorem quotient_enclosed :
  forall x y i j, inside x i -> inside y j -> 0 < fst j \/ snd j < 0 -> inside (rnd (x / y)) (quotient_of i j).
Proof.
  intros x y i j X Y H. apply product_enclosed; [exact X | apply inverse_between; assumption].
Qed.

Definition negation_of (i : interval) : interval := (- snd i, - fst i).
Definition size_of (i : interval) : interval := (Rmax (Rmax (fst i) (- snd i)) 0, Rmax (Rabs (fst i)) (Rabs (snd i))).
Definition larger_of (i j : interval) : interval := (Rmax (fst i) (fst j), Rmax (snd i) (snd j)).
Definition hull_of (i j : interval) : interval := (Rmin (fst i) (fst j), Rmax (snd i) (snd j)).
Definition both_of (i j : interval) : interval := (Rmax (fst i) (fst j), Rmin (snd i) (snd j)).

Theorem exact_enclosed :
  forall x y i j, inside x i -> inside y j ->
  inside (- x) (negation_of i) /\ inside (Rabs x) (size_of i) /\ inside (Rmax x y) (larger_of i j) /\
  inside x (hull_of i j) /\ inside y (hull_of i j).
Proof.
  intros x y (a, b) (c, d) (A & B) (C & D). unfold inside, negation_of, size_of, larger_of, hull_of. simpl in *.
  unfold Rmin, Rmax, Rabs. repeat split; repeat (destruct Rle_dec || destruct Rcase_abs); lra.
Qed.

(** What two enclosures of one number have in common. *)
Theorem both_enclosed : forall x i j, inside x i -> inside x j -> inside x (both_of i j).
Proof. intros x i j (A & B) (C & D). split; [apply Rmax_lub | apply Rmin_glb]; assumption. Qed.

(** A number of the format that lies between real ends lies between the numbers inside them. *)
Definition up x := round radix2 fexp Zceil x.
Definition down x := round radix2 fexp Zfloor x.

Theorem inward : forall x lo hi, binary32 x -> lo <= x <= hi -> up lo <= x <= down hi.
Proof.
  intros x lo hi F (A & B). split.
  - apply (round_UP_pt radix2 fexp lo); assumption.
  - apply (round_DN_pt radix2 fexp hi); assumption.
Qed.

(** * Sums and dots in any order *)

Definition plus (l : list R) := fold_right (fun x s => x + s) 0 l.

Lemma plus_app : forall l k, plus (l ++ k) = plus l + plus k.
Proof. induction l as [| x l IH]; intro k; simpl; [ring | rewrite IH; ring]. Qed.

Lemma plus_permuted : forall l k, Permutation l k -> plus l = plus k.
Proof. intros l k P. induction P; simpl; lra. Qed.

Fixpoint terms (t : tree) : list R := match t with Leaf x => [x] | Node l r => terms l ++ terms r end.

Lemma total_is : forall t, total t = plus (terms t).
Proof. induction t; simpl; [ring | rewrite plus_app, IHt1, IHt2; reflexivity]. Qed.

Lemma mass_is : forall t, mass t = plus (map Rabs (terms t)).
Proof. induction t; simpl; [ring | rewrite map_app, plus_app, IHt1, IHt2; reflexivity]. Qed.

Lemma leaves_are : forall t, leaves t = length (terms t).
Proof. induction t; simpl; [reflexivity | rewrite app_length; lia]. Qed.

Lemma format_of_terms : forall t, Forall binary32 (terms t) -> terms_in_format t.
Proof.
  induction t; simpl; intro H; [inversion H; assumption |]. apply Forall_app in H. destruct H. split; auto.
Qed.

Definition magnitude (i : interval) := Rmax (Rabs (fst i)) (Rabs (snd i)).
Definition sum_error (l : list interval) := (INR (length l) - 1) * u * plus (map magnitude l).
Definition summed (l : list interval) : interval :=
  (up (plus (map fst l) - sum_error l), down (plus (map snd l) + sum_error l)).

Lemma magnitude_above : forall x i, inside x i -> Rabs x <= magnitude i.
Proof.
  intros x (a, b) (A & B). unfold magnitude. simpl in *. unfold Rmax, Rabs.
  repeat (destruct Rle_dec || destruct Rcase_abs); lra.
Qed.

Lemma plus_between :
  forall xs l, Forall2 inside xs l ->
  plus (map fst l) <= plus xs <= plus (map snd l) /\ plus (map Rabs xs) <= plus (map magnitude l).
Proof.
  intros xs l H. induction H as [| x i xs l X H (IH1 & IH2)]; simpl; [lra |].
  assert (M := magnitude_above x i X). destruct X. simpl in *. repeat split; lra.
Qed.

Lemma Forall2_length' : forall (A B : Type) (P : A -> B -> Prop) l k, Forall2 P l k -> length l = length k.
Proof. intros A B P l k H. induction H; simpl; congruence. Qed.

Theorem summed_enclosed :
  forall t xs l, Permutation (terms t) xs -> Forall binary32 xs -> Forall2 inside xs l -> inside (sum t) (summed l).
Proof.
  intros t xs l P F H. destruct (plus_between xs l H) as ((A & B) & M).
  assert (FT : terms_in_format t).
  { apply format_of_terms. rewrite Forall_forall in *. intros x X. apply F. eapply Permutation_in; eassumption. }
  assert (E := sum_any_tree t FT).
  rewrite total_is, mass_is, leaves_are in E. rewrite (plus_permuted _ _ P) in E.
  rewrite (plus_permuted _ _ (Permutation_map Rabs P)) in E. rewrite (Permutation_length P) in E.
  rewrite (Forall2_length' _ _ _ _ _ H) in E.
  assert (N : 0 <= (INR (length l) - 1) * u).
  { assert (L := leaves_positive t). rewrite leaves_are, (Permutation_length P), (Forall2_length' _ _ _ _ _ H) in L.
    apply le_INR in L. simpl in L. assert (U := u_positive). apply Rmult_le_pos; lra. }
  assert (S : (INR (length l) - 1) * u * plus (map Rabs xs) <= (INR (length l) - 1) * u * plus (map magnitude l)) by (apply Rmult_le_compat_l; assumption).
  unfold summed, sum_error, inside. simpl. apply inward; [apply sum_format; exact FT |]. apply Rabs_le_inv in E. lra.
Qed.

(** A dot: middle and radius of its operands. *)
Definition middle (i : interval) := (fst i + snd i) / 2.
Definition radius (i : interval) := (snd i - fst i) / 2.
Definition dot_middle (l : list couple) := plus (map (fun p => middle (fst p) * middle (snd p)) l).
Definition dot_size (l : list couple) := plus (map (fun p => magnitude (fst p) * magnitude (snd p)) l).
Definition dot_reach (l : list couple) :=
  plus (map (fun p => radius (fst p) * magnitude (snd p) + Rabs (middle (fst p)) * radius (snd p)) l).
Definition dot_error (l : list couple) :=
  let n := INR (length l) in dot_reach l + n * u * dot_size l + n * (1 + n * u) * eta.
Definition dotted (l : list couple) : interval :=
  (up (dot_middle l - dot_error l), down (dot_middle l + dot_error l)).

Fixpoint keys (t : order) : list (R * R) :=
  match t with
  | Product p d => [(p, d)]
  | Fused t p d => keys t ++ [(p, d)]
  | Added l r => keys l ++ keys r
  end.

Definition product_sum (l : list (R * R)) := plus (map (fun p => fst p * snd p) l).
Definition product_mass (l : list (R * R)) := plus (map (fun p => Rabs (fst p * snd p)) l).

Lemma inner_is : forall t, inner t = product_sum (keys t).
Proof.
  unfold product_sum. induction t; simpl; [ring | |]; rewrite map_app, plus_app.
  - rewrite IHt. simpl. ring.
  - rewrite IHt1, IHt2. reflexivity.
Qed.

Lemma inner_mass_is : forall t, inner_mass t = product_mass (keys t).
Proof.
  unfold product_mass. induction t; simpl; [ring | |]; rewrite map_app, plus_app.
  - rewrite IHt. simpl. ring.
  - rewrite IHt1, IHt2. reflexivity.
Qed.

Lemma products_are : forall t, products t = length (keys t).
Proof. induction t; simpl; [reflexivity | |]; rewrite app_length; simpl; lia. Qed.

Lemma computed_format : forall t, binary32 (computed t).
Proof. destruct t; simpl; apply rnd_format. Qed.

Lemma middle_near : forall x i, inside x i -> Rabs (x - middle i) <= radius i.
Proof. intros x (a, b) (A & B). unfold middle, radius. simpl in *. apply Rabs_le. lra. Qed.

Definition inside_both (p : R * R) (q : couple) := inside (fst p) (fst q) /\ inside (snd p) (snd q).

Lemma products_between :
  forall ps l, Forall2 inside_both ps l ->
  Rabs (product_sum ps - dot_middle l) <= dot_reach l /\ product_mass ps <= dot_size l.
Proof.
  unfold product_sum, product_mass, dot_middle, dot_reach, dot_size.
  intros ps l H. induction H as [| (x, y) (i, j) ps l (X & Y) H (IH1 & IH2)]; simpl.
  - rewrite Rminus_0_r, Rabs_R0. lra.
  - simpl in *. assert (A := middle_near x i X). assert (B := middle_near y j Y).
    assert (MX := magnitude_above x i X). assert (MY := magnitude_above y j Y).
    assert (Q : Rabs (x * y - middle i * middle j) <= radius i * magnitude j + Rabs (middle i) * radius j).
    { replace (x * y - middle i * middle j) with ((x - middle i) * y + middle i * (y - middle j)) by ring.
      eapply Rle_trans. apply Rabs_triang. rewrite !Rabs_mult. apply Rplus_le_compat.
      - apply Rmult_le_compat; try apply Rabs_pos; assumption.
      - apply Rmult_le_compat_l; [apply Rabs_pos | assumption]. }
    assert (S : Rabs (x * y) <= magnitude i * magnitude j).
    { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
    split; [| lra].
    set (a := plus (map (fun p => fst p * snd p) ps)) in *. set (b := plus (map (fun p => middle (fst p) * middle (snd p)) l)) in *.
    replace (x * y + a - (middle i * middle j + b)) with ((x * y - middle i * middle j) + (a - b)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Theorem dotted_enclosed :
  forall t ps l, Permutation (keys t) ps -> Forall2 inside_both ps l -> inside (computed t) (dotted l).
Proof.
  intros t ps l P H. destruct (products_between ps l H) as (A & M).
  assert (E := inner_any_order t). cbv zeta in E.
  rewrite inner_is, inner_mass_is, products_are in E. unfold product_sum, product_mass in *.
  rewrite (plus_permuted _ _ (Permutation_map (fun p => fst p * snd p) P)) in E.
  rewrite (plus_permuted _ _ (Permutation_map (fun p => Rabs (fst p * snd p)) P)) in E.
  rewrite (Permutation_length P), (Forall2_length' _ _ _ _ _ H) in E.
  assert (N : 0 <= INR (length l) * u).
  { assert (U := u_positive). apply Rmult_le_pos; [apply pos_INR | lra]. }
  assert (S := Rmult_le_compat_l _ _ _ N M).
  unfold dotted, dot_error, inside. simpl. apply inward; [apply computed_format |].
  apply Rabs_le_inv in A, E. lra.
Qed.

(** * A kernel's steps, one after the other *)

Section Kernel.
  (** What its functions and casts may answer, by their names, and an interval that holds the answers:
      each is a certificate or a theorem of its own. *)
  Variable answers : nat -> R -> R -> Prop.
  Variable image : nat -> interval -> interval.
  Hypothesis image_holds : forall f x y i, answers f x y -> inside x i -> inside y (image f i).
  Hypothesis answers_format : forall f x y, binary32 x -> answers f x y -> binary32 y.

  Inductive step :=
    | Plus (i j : nat) | Minus (i j : nat) | Times (i j : nat) | Over (i j : nat) | Fuse (i j k : nat)
    | Larger (i j : nat) | Negate (i : nat) | Size (i : nat) | Either (i j : nat)
    | Summed (l : list nat) | Dotted (l : list (nat * nat)) | Call (f i : nat).

  Definition at_ (g : list R) i := nth i g 0.
  Definition pairs (g : list R) (l : list (nat * nat)) := map (fun p => (at_ g (fst p), at_ g (snd p))) l.

  (** What a step may give. *)
  Inductive gives (g : list R) : step -> R -> Prop :=
    | gives_plus : forall i j, gives g (Plus i j) (rnd (at_ g i + at_ g j))
    | gives_minus : forall i j, gives g (Minus i j) (rnd (at_ g i - at_ g j))
    | gives_times : forall i j, gives g (Times i j) (rnd (at_ g i * at_ g j))
    | gives_over : forall i j, gives g (Over i j) (rnd (at_ g i / at_ g j))
    | gives_fuse : forall i j k, gives g (Fuse i j k) (rnd (at_ g i * at_ g j + at_ g k))
    | gives_larger : forall i j, gives g (Larger i j) (Rmax (at_ g i) (at_ g j))
    | gives_negate : forall i, gives g (Negate i) (- at_ g i)
    | gives_size : forall i, gives g (Size i) (Rabs (at_ g i))
    | gives_one : forall i j, gives g (Either i j) (at_ g i)
    | gives_other : forall i j, gives g (Either i j) (at_ g j)
    | gives_summed : forall l t, Permutation (terms t) (map (at_ g) l) -> gives g (Summed l) (sum t)
    | gives_dotted : forall l t, Permutation (keys t) (pairs g l) -> gives g (Dotted l) (computed t)
    | gives_call : forall f i y, answers f (at_ g i) y -> gives g (Call f i) y.

  Definition known := option interval.
  Definition holds (x : R) (o : known) := match o with None => True | Some i => inside x i end.
  Definition held (G : list known) i := nth i G (Some (0, 0)).

  Definition with1 (f : interval -> interval) (o : known) : known := match o with Some i => Some (f i) | None => None end.
  Definition with2 (f : interval -> interval -> interval) (o p : known) : known :=
    match o with Some i => with1 (f i) p | None => None end.
  Definition paired (o p : known) : option couple :=
    match o with Some i => match p with Some j => Some (i, j) | None => None end | None => None end.
  Fixpoint all (A : Type) (l : list (option A)) : option (list A) :=
    match l with
    | [] => Some []
    | o :: l => match o with Some i => match all A l with Some k => Some (i :: k) | None => None end | None => None end
    end.
  Definition divided (i j : interval) : known :=
    if Rlt_dec 0 (fst j) then Some (quotient_of i j) else if Rlt_dec (snd j) 0 then Some (quotient_of i j) else None.

  Definition both_held (G : list known) (p : nat * nat) := paired (held G (fst p)) (held G (snd p)).

  Definition enclose (G : list known) (s : step) : known :=
    match s with
    | Plus i j => with2 sum_of (held G i) (held G j)
    | Minus i j => with2 difference_of (held G i) (held G j)
    | Times i j => with2 product_of (held G i) (held G j)
    | Over i j => match held G i with Some a => match held G j with Some b => divided a b | None => None end | None => None end
    | Fuse i j k => match held G i with Some a => with2 (fused_of a) (held G j) (held G k) | None => None end
    | Larger i j => with2 larger_of (held G i) (held G j)
    | Negate i => with1 negation_of (held G i)
    | Size i => with1 size_of (held G i)
    | Either i j => with2 hull_of (held G i) (held G j)
    | Summed l => match all interval (map (held G) l) with Some k => Some (summed k) | None => None end
    | Dotted l => match all couple (map (both_held G) l) with Some k => Some (dotted k) | None => None end
    | Call f i => with1 (image f) (held G i)
    end.

  Lemma at_held : forall g G i, Forall2 holds g G -> holds (at_ g i) (held G i).
  Proof.
    intros g G i H. revert i. unfold at_, held.
    induction H as [| x o g G X H IH]; intros [| i]; simpl; try (split; simpl; lra); [exact X | apply IH].
  Qed.

  Lemma at_format : forall g i, Forall binary32 g -> binary32 (at_ g i).
  Proof.
    intros g i H. revert i. unfold at_. induction H as [| x g X H IH]; intros [| i]; simpl; try apply format_0; auto.
  Qed.

  Lemma binary32_opp : forall x, binary32 x -> binary32 (- x).
  Proof. intros x H. apply generic_format_opp. exact H. Qed.

  Lemma all_held :
    forall g G l k, Forall2 holds g G -> all interval (map (held G) l) = Some k -> Forall2 inside (map (at_ g) l) k.
  Proof.
    intros g G l. induction l as [| i l IH]; intros k H E; simpl in *; [inversion E; constructor |].
    assert (A := at_held g G i H). destruct (held G i); [| discriminate].
    destruct (all interval (map (held G) l)) eqn:F; [| discriminate]. inversion E. constructor; [exact A | apply IH; auto].
  Qed.

  Lemma all_pairs_held :
    forall g G l k, Forall2 holds g G -> all couple (map (both_held G) l) = Some k ->
    Forall2 inside_both (pairs g l) k.
  Proof.
    intros g G l. unfold pairs. induction l as [| (i, j) l IH]; intros k H E; simpl in *; [inversion E; constructor |].
    assert (A := at_held g G i H). assert (B := at_held g G j H). unfold both_held at 1, paired in E. simpl in E.
    destruct (held G i); [| discriminate]. destruct (held G j); [| discriminate].
    destruct (all couple (map (both_held G) l)) eqn:F; [| discriminate].
    inversion E. constructor; [split; assumption | apply IH; auto].
  Qed.

  (** One step: what it gives is inside what is enclosed, and a number of the format. *)
  Lemma step_held :
    forall g G s x, Forall binary32 g -> Forall2 holds g G -> gives g s x -> holds x (enclose G s) /\ binary32 x.
  Proof.
    intros g G s x F H R.
    assert (A := fun i => at_held g G i H). assert (B := fun i => at_format g i F).
    inversion R as [i j | i j | i j | i j | i j k | i j | i | i | i j | i j | l t P | l t P | f i y Y]; subst; simpl.
    - split; [| apply rnd_format]. assert (I := A i). assert (J := A j). destruct (held G i), (held G j); simpl; auto.
      apply sum_enclosed; assumption.
    - split; [| apply rnd_format]. assert (I := A i). assert (J := A j). destruct (held G i), (held G j); simpl; auto.
      apply difference_enclosed; assumption.
    - split; [| apply rnd_format]. assert (I := A i). assert (J := A j). destruct (held G i), (held G j); simpl; auto.
      apply product_enclosed; assumption.
    - split; [| apply rnd_format]. assert (I := A i). assert (J := A j). destruct (held G i) as [a |], (held G j) as [b |]; simpl; auto.
      unfold divided. destruct Rlt_dec; [| destruct Rlt_dec]; simpl; auto; apply quotient_enclosed; auto.
    - split; [| apply rnd_format]. assert (I := A i). assert (J := A j). assert (K := A k).
      destruct (held G i), (held G j), (held G k); simpl; auto. apply fused_enclosed; assumption.
    - assert (I := A i). assert (J := A j). split.
      + destruct (held G i) as [a |], (held G j) as [b |]; simpl; auto. apply (exact_enclosed _ _ a b); assumption.
      + unfold Rmax. destruct Rle_dec; apply B.
    - assert (I := A i). split; [| apply binary32_opp, B].
      destruct (held G i) as [a |]; simpl; auto. apply (exact_enclosed _ _ a a I I).
    - assert (I := A i). split.
      + destruct (held G i) as [a |]; simpl; auto. apply (exact_enclosed _ _ a a I I).
      + unfold Rabs. destruct Rcase_abs; [apply binary32_opp, B | apply B].
    - assert (I := A i). assert (J := A j). split; [| apply B].
      destruct (held G i) as [a |], (held G j) as [b |]; simpl; auto. apply (exact_enclosed _ _ a b I J).
    - assert (I := A i). assert (J := A j). split; [| apply B].
      destruct (held G i) as [a |], (held G j) as [b |]; simpl; auto. apply (exact_enclosed _ _ a b I J).
    - assert (FX : Forall binary32 (map (at_ g) l)).
      { apply Forall_forall. intros x X. apply in_map_iff in X. destruct X as (i & <- & _). apply B. }
      split.
      + destruct (all interval (map (held G) l)) as [k |] eqn:E; simpl; auto.
        eapply summed_enclosed; [exact P | exact FX | eapply all_held; eassumption].
      + apply sum_format, format_of_terms. rewrite Forall_forall in *. intros x X. apply FX. eapply Permutation_in; eassumption.
    - split; [| apply computed_format].
      destruct (all couple (map (both_held G) l)) as [k |] eqn:E; simpl; auto.
      eapply dotted_enclosed; [exact P | eapply all_pairs_held; eassumption].
    - assert (I := A i). split; [| eapply answers_format; [apply B | exact Y]].
      destruct (held G i) as [a |]; simpl; auto. eapply image_holds; eassumption.
  Qed.

  (** A run: each result stands behind those before it. *)
  Inductive run : list R -> list step -> list R -> Prop :=
    | run_end : forall g, run g [] g
    | run_step : forall g s x p g', gives g s x -> run (g ++ [x]) p g' -> run g (s :: p) g'.

  Fixpoint enclose_all (G : list known) (p : list step) : list known :=
    match p with [] => G | s :: p => enclose_all (G ++ [enclose G s]) p end.

  (** By induction over the steps. *)
  Theorem kernel_enclosed :
    forall p g G g', Forall binary32 g -> Forall2 holds g G -> run g p g' -> Forall2 holds g' (enclose_all G p).
  Proof.
    induction p as [| s p IH]; intros g G g' F H R; inversion R; subst; simpl; [exact H |].
    match goal with K : gives g s _ |- _ => destruct (step_held g G s _ F H K) as (X & Y) end.
    eapply IH; [| | eassumption].
    - apply Forall_app. split; [exact F | constructor; [exact Y | constructor]].
    - apply Forall2_app; [exact H | constructor; [exact X | constructor]].
  Qed.
End Kernel.

(** * What a row's intervals have in common *)

(** e / (e + others) rises with e and falls with the others, which the quotient of the ends forgets. *)
Theorem share_enclosed :
  forall e o i j, inside e i -> inside o j -> 0 <= fst i -> 0 <= fst j -> 0 < e + o -> 0 < fst i + snd j -> 0 < snd i + fst j ->
  fst i / (fst i + snd j) <= e / (e + o) <= snd i / (snd i + fst j).
Proof.
  intros e o (a, b) (c, d) (A & B) (C & D) P Q H H1 H2. simpl in *.
  assert (S : forall x y z w, 0 < y -> 0 < w -> x * w <= z * y -> x / y <= z / w).
  { intros x y z w Y W E. apply Rmult_le_reg_r with (y * w); [apply Rmult_lt_0_compat; assumption |].
    replace (x / y * (y * w)) with (x * w) by (field; lra). replace (z / w * (y * w)) with (z * y) by (field; lra). exact E. }
  assert (a * o <= e * d) by (apply Rmult_le_compat; lra).
  assert (e * c <= b * o) by (apply Rmult_le_compat; lra).
  split; apply S; try assumption.
  - replace (a * (e + o)) with (a * e + a * o) by ring. replace (e * (a + d)) with (a * e + e * d) by ring. lra.
  - replace (e * (b + c)) with (e * b + e * c) by ring. replace (b * (e + o)) with (e * b + b * o) by ring. lra.
Qed.

(** A sum of numbers that are not negative is not below any of them: l is at least exp(0). *)
Theorem sum_at_least :
  forall t x, terms_in_format t -> Forall (fun y => 0 <= y) (terms t) -> In x (terms t) -> x <= sum t.
Proof.
  induction t as [y | l IHl r IHr]; intros x F N I; simpl in *.
  - destruct I as [-> | []]. lra.
  - destruct F as (Fl & Fr). apply Forall_app in N. destruct N as (Nl & Nr).
    assert (P : forall t, terms_in_format t -> Forall (fun y => 0 <= y) (terms t) -> 0 <= sum t).
    { clear. induction t as [y | l IHl r IHr]; simpl; intros F N; [inversion N; assumption |].
      apply Forall_app in N. destruct N, F. rewrite <- rnd_0. apply rnd_monotone.
      assert (A := IHl ltac:(assumption) ltac:(assumption)). assert (B := IHr ltac:(assumption) ltac:(assumption)). lra. }
    assert (A := P l Fl Nl). assert (B := P r Fr Nr).
    assert (G : forall y, binary32 y -> rnd y = y) by (intros y Y; apply round_generic; [apply valid_rnd_N | exact Y]).
    apply in_app_or in I. destruct I as [I | I].
    + assert (C := IHl x Fl Nl I). rewrite <- (G (sum l)) in C by (apply sum_format; exact Fl).
      eapply Rle_trans. exact C. apply rnd_monotone. lra.
    + assert (C := IHr x Fr Nr I). rewrite <- (G (sum r)) in C by (apply sum_format; exact Fr).
      eapply Rle_trans. exact C. apply rnd_monotone. lra.
Qed.
