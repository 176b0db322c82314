declare module 'virtual:operations' {
  const operations: Readonly<Record<string, readonly [method: string, path: string]>>;
  export default operations;
}

declare module 'virtual:gallery' {
  const gallery: readonly {
    readonly name: string;
    readonly summary: string;
    readonly kind: 'prompt' | 'program' | 'loop' | 'orchestrator' | 'service' | 'skill';
    readonly features: readonly string[];
    readonly needs_model_key: boolean;
    readonly needs: readonly string[];
  }[];
  export default gallery;
}

declare module 'virtual:gallery-files' {
  /** Name of an example -> path in its folder -> content. */
  const files: Readonly<Record<string, Readonly<Record<string, string | { readonly base64: string }>>>>;
  export default files;
}
