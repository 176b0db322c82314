import type { Assembly } from './assembly.ts';

export interface Statement {
  readonly effect: 'Allow' | 'Deny';
  readonly actions: readonly string[];
  readonly notActions: readonly string[];
  readonly resources: readonly string[];
  readonly notResources: readonly string[];
  readonly condition: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
}

/** Empty statement that allows nothing. */
export const NOTHING: Statement = {
  effect: 'Allow',
  actions: [],
  notActions: ['*'],
  resources: [],
  notResources: ['*'],
  condition: {},
};

/** A request in IAM's terms. */
export interface Ask {
  readonly action: string;
  /** Resource ARN; `*` for an action without resources. */
  readonly resource: string;
  /** Condition keys of the request and their values. @default {} */
  readonly context?: Readonly<Record<string, readonly string[]>>;
}

/** Returns the statements of all policies of a role. */
export function policiesOf(assembly: Assembly, roleArn: string): Statement[] {
  const role = assembly.of('AWS::IAM::Role').find(({ arn }) => arn === roleArn);
  if (role === undefined) throw new Error(`the assembly has no role ${roleArn}`);
  const attached = ['AWS::IAM::Policy', 'AWS::IAM::RolePolicy', 'AWS::IAM::ManagedPolicy']
    .flatMap((type) => assembly.of(type))
    .filter(({ stack, properties: { Roles, RoleName } }) => {
      // A `Ref` to an unnamed role is known only in its own stack.
      return stack === role.stack && [...(Roles ?? []), RoleName].includes(role.arn.split('/').at(-1));
    });
  return [...attached, ...(role.properties.Policies ?? []).map((properties: unknown) => ({ properties }))].flatMap(
    ({ properties }) => [properties.PolicyDocument.Statement].flat().map(statementOf),
  );
}

// biome-ignore lint/suspicious/noExplicitAny: a statement of a policy document.
export function statementOf({ Effect, Action, NotAction, Resource, NotResource, Condition }: any): Statement {
  const list = (value: unknown) => (value === undefined ? [] : [value].flat().map(String));
  return {
    effect: Effect,
    actions: list(Action),
    notActions: list(NotAction),
    resources: list(Resource),
    notResources: list(NotResource),
    condition: Condition ?? {},
  };
}

/** Policy entry that allows a request. */
export interface Grant {
  readonly action: string;
  readonly resource: string;
}

/** Returns the entry that allows a request by IAM's rules: an explicit deny wins. */
export function allowing(statements: readonly Statement[], ask: Ask): Grant | undefined {
  const matching = statements.filter((statement) => matches(statement, ask));
  const [first] = matching;
  if (first === undefined || matching.some(({ effect }) => effect === 'Deny')) return undefined;
  return {
    action: first.actions.find((pattern) => actionMatches(pattern, ask.action)) ?? `not ${first.notActions}`,
    resource: first.resources.find((pattern) => arnMatches(pattern, ask.resource)) ?? `not ${first.notResources}`,
  };
}

const actionMatches = (pattern: string, action: string): boolean =>
  wildcard(pattern.toLowerCase(), action.toLowerCase());

function matches(statement: Statement, { action, resource, context = {} }: Ask): boolean {
  const { actions, notActions, resources, notResources, condition } = statement;
  return (
    (actions.length > 0
      ? actions.some((pattern) => actionMatches(pattern, action))
      : !notActions.some((pattern) => actionMatches(pattern, action))) &&
    (resources.length > 0
      ? resources.some((pattern) => arnMatches(pattern, resource))
      : !notResources.some((pattern) => arnMatches(pattern, resource))) &&
    Object.entries(condition).every(([operator, keys]) =>
      Object.entries(keys).every(([key, wanted]) => holds(operator, [wanted].flat().map(String), context[key])),
    )
  );
}

type Comparison = (pattern: string, value: string) => boolean;
const equals: Comparison = (pattern, value) => pattern === value;
const OPERATORS: Readonly<Record<string, Comparison>> = {
  StringEquals: equals,
  StringEqualsIgnoreCase: (pattern, value) => pattern.toLowerCase() === value.toLowerCase(),
  StringLike: wildcard,
  ArnEquals: arnMatches,
  ArnLike: arnMatches,
  Bool: equals,
  NumericEquals: (pattern, value) => Number(pattern) === Number(value),
  NumericLessThanEquals: (pattern, value) => Number(value) <= Number(pattern),
};

/**
 * Returns whether a condition holds for the values in the request. Throws for an unknown operator, because an
 * unsupported condition must not count as met.
 */
function holds(operator: string, wanted: readonly string[], given: readonly string[] | undefined): boolean {
  if (operator === 'Null') return (given === undefined) === (wanted[0] === 'true');
  const [, quantifier, name = '', ifExists] =
    /^(?:(ForAllValues|ForAnyValue):)?(\w+?)(IfExists)?$/.exec(operator) ?? [];
  const isNegated = name.includes('Not');
  const compare = OPERATORS[name.replace('Not', '')];
  if (compare === undefined) throw new Error(`the rehearsal knows no condition operator ${operator}`);
  if (given === undefined) return ifExists !== undefined || quantifier === 'ForAllValues' || isNegated;
  const fits = (value: string) => wanted.some((pattern) => compare(pattern, value)) !== isNegated;
  return quantifier === 'ForAnyValue' ? given.some(fits) : given.every(fits);
}

/** Returns whether an ARN matches a pattern; a wildcard may span a colon. */
export function arnMatches(pattern: string, arn: string): boolean {
  return wildcard(pattern, arn);
}

const patterns = new Map<string, RegExp>();

function wildcard(pattern: string, text: string): boolean {
  const known = patterns.get(pattern) ?? patternOf(pattern);
  patterns.set(pattern, known);
  return known.test(text);
}

function patternOf(pattern: string): RegExp {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 's');
}
