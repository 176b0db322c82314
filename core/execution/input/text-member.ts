/** Names of members that hold what a user writes, the likeliest first. */
const USUAL_NAMES = ['message', 'input', 'prompt', 'question', 'text', 'query'] as const;

type Schema = Readonly<Record<string, unknown>>;

interface Member {
  readonly name: string;
  readonly isRequired: boolean;
  readonly takesText: boolean;
}

/**
 * Returns the member of an agent's input that a text fills; `undefined` if that is not clear.
 *
 * @param placeholders The members that the prompt of an agent without a schema names.
 */
export function textMemberOf(schema: Schema | null, placeholders: readonly string[] = []): string | undefined {
  if (schema === null) return placeholders.length > 1 ? undefined : (placeholders[0] ?? USUAL_NAMES[0]);
  const members = membersOf(schema);
  const required = members.filter(({ isRequired }) => isRequired);
  const ofText = required.filter(({ takesText }) => takesText);
  if (ofText.length === 1 && required.length === 1) return ofText[0]!.name;
  // What else is required would be missing.
  const isAlone = (name: string) => required.every((member) => member.name === name);
  const usual = USUAL_NAMES.find((name) => isAlone(name) && members.some((one) => one.name === name && one.takesText));
  if (usual !== undefined) return usual;
  const isOpen = members.length === 0 && schema.additionalProperties !== false;
  return isOpen ? USUAL_NAMES[0] : undefined;
}

/** Returns the members of an input schema. */
export function membersOf(schema: Schema | null): Member[] {
  const properties = Object.entries((schema?.properties ?? {}) as Record<string, unknown>);
  const required = Array.isArray(schema?.required) ? schema.required : [];
  return properties.map(([name, shape]) => ({
    name,
    isRequired: required.includes(name) && !hasDefault(shape),
    takesText: takesText(shape),
  }));
}

const hasDefault = (shape: unknown): boolean =>
  typeof shape === 'object' && shape !== null && 'default' in shape && shape.default !== undefined;

function takesText(shape: unknown): boolean {
  if (typeof shape !== 'object' || shape === null || 'enum' in shape || 'const' in shape) return false;
  const { type } = shape as { readonly type?: unknown };
  return type === 'string' || (Array.isArray(type) && type.includes('string'));
}
