/** A skill that applies to a run, resolved and allowed. */
export interface Skill {
  readonly org: string;
  readonly name: string;
  /** `v1`. */
  readonly version: string;
  readonly description: string;
  /** The Markdown of SKILL.md without its front matter. */
  readonly text: string;
  /** The files beside SKILL.md. */
  readonly files: readonly { readonly path: string; readonly content: string }[];
}
