import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

type Schema = Readonly<Record<string, unknown>>;

interface Member {
  /** `address.street`, `lines[].price`. */
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly about: string;
}

const MAX_MEMBERS = 300;
const MAX_DEPTH = 6;

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const short = (value: unknown): string => JSON.stringify(value)?.slice(0, 80) ?? '';

function typeOf(schema: Schema): string {
  const { type, items, enum: choices, const: only, $ref, anyOf, oneOf } = schema;
  if (choices !== undefined) return `one of ${short(choices)}`;
  if (only !== undefined) return short(only);
  if (type === 'array' && isSchema(items)) return `array of ${typeOf(items)}`;
  if (typeof type === 'string') return type;
  if (Array.isArray(type)) return type.join(' or ');
  if (typeof $ref === 'string') return $ref;
  return anyOf !== undefined || oneOf !== undefined ? 'multiple types' : 'any';
}

/** Constraints of a member shown beside its type. */
const RULES = ['default', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'format', 'maxItems'] as const;

const aboutOf = (schema: Schema): string =>
  [
    ...(typeof schema.description === 'string' ? [schema.description] : []),
    ...RULES.flatMap((rule) => (schema[rule] === undefined ? [] : [`${rule} ${short(schema[rule])}`])),
  ].join(' · ');

function membersOf(schema: Schema, prefix = '', depth = 0): Member[] {
  const { properties, required, items } = schema;
  if (depth > MAX_DEPTH) return [];
  if (isSchema(items)) return membersOf(items, `${prefix}[]`, depth + 1);
  if (!isSchema(properties)) return [];
  const needed = Array.isArray(required) ? required : [];
  return Object.entries(properties).flatMap(([name, member]) => {
    if (!isSchema(member)) return [];
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const own = { path, type: typeOf(member), isRequired: needed.includes(name), about: aboutOf(member) };
    return [own, ...membersOf(member, path, depth + 1)];
  });
}

/** Members of a JSON Schema; `null` shows that there is no schema. */
export function SchemaTable({ label, schema }: { readonly label: string; readonly schema: Schema | null }) {
  if (schema === null) return <p className="text-soft">No schema: accepts any JSON.</p>;
  const members = membersOf(schema);
  if (members.length === 0) return <p className="text-soft">{escapeText(typeOf(schema))}, without named properties.</p>;
  return (
    <>
      <Table
        label={label}
        rows={members.slice(0, MAX_MEMBERS)}
        keyOf={({ path }) => path}
        columns={[
          {
            title: 'Property',
            cell: ({ path, isRequired }) => (
              <span className="flex flex-wrap items-center gap-1.5">
                <span className="font-mono text-xs break-all">{escapeText(path)}</span>
                {isRequired && <Badge tone="info">required</Badge>}
              </span>
            ),
          },
          { title: 'Type', cell: ({ type }) => <span className="break-words">{escapeText(type)}</span> },
          {
            title: 'Description',
            cell: ({ about }) => <span className="break-words text-soft">{escapeText(about)}</span>,
            from: 'sm',
          },
        ]}
      />
      {members.length > MAX_MEMBERS && <p className="text-soft">{members.length - MAX_MEMBERS} more properties.</p>}
    </>
  );
}
