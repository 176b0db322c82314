type Schema = Readonly<Record<string, unknown>>;

/** Returns an initial input for a schema: its examples and defaults, and placeholders for other required members. */
export function sampleOf(schema: Schema | null | undefined): unknown {
  const {
    type,
    properties,
    required,
    examples,
    default: preset,
    const: only,
    enum: choices,
  } = (schema ?? {}) as {
    readonly type?: string | readonly string[];
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly required?: readonly string[];
    readonly examples?: readonly unknown[];
    readonly default?: unknown;
    readonly const?: unknown;
    readonly enum?: readonly unknown[];
  };
  if (preset !== undefined) return preset;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  if (only !== undefined) return only;
  if (choices !== undefined) return choices[0];
  const kind = typeof type === 'string' ? type : type?.[0];
  if (properties !== undefined || kind === 'object' || kind === undefined) {
    const members = Object.entries(properties ?? {}).filter(
      ([name, member]) => required?.includes(name) || (member as Schema).default !== undefined,
    );
    return Object.fromEntries(members.map(([name, member]) => [name, sampleOf(member)]));
  }
  if (kind === 'array') return [];
  if (kind === 'string') return '';
  if (kind === 'number' || kind === 'integer') return ((schema as { minimum?: number }).minimum ?? 0) as number;
  return kind === 'boolean' ? false : null;
}
