import { type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings';
import * as z from 'zod';
import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { textOf as memberText } from '#core/api/describe-members.ts';
import { isRaw, pathParameters, type Route } from '#core/http/route.ts';
import type { Cli, Configure } from './shared/cli.ts';
import { findId, formsOf } from './shared/find-id.ts';
import { readJson, readText } from './shared/input.ts';
import { duration, members, table, textOf } from './shared/output.ts';
import { routeOf } from './shared/route-of.ts';

export type OperationId = keyof Client;

/** A command for one operation of the API. Its options are derived from the schemas of the operation's row. */
export interface OperationCommand {
  readonly name: string;
  readonly operation: OperationId;
  /** @default - the summary of the row */
  readonly summary?: string;
  /** Members of the query or body that are positional arguments, in this order, after the path parameters. */
  readonly args?: readonly string[];
  /** Members with an option. @default - all except aliases */
  readonly options?: readonly string[];
  /** Maps members to shorter option names. The member's own name stays as an option that the help omits. */
  readonly named?: Readonly<Record<string, string>>;
  /** Whether it is about what belongs to a tenant, whom an option names. */
  readonly isOfTenant?: boolean;
  /** Whether the body is the input of a run: the option is then `--input`, and `--body` stays hidden. */
  readonly bodyIsInput?: boolean;
  /** Members that are always sent. */
  readonly fixed?: Readonly<Record<string, unknown>>;
  /** Member of the answer that holds the list. @default - the answer itself, if it is a list */
  readonly list?: string;
  /** Member of the answer that is shown instead of the whole answer. */
  readonly one?: string;
  readonly columns?: readonly string[];
  /** What columns of lists show. @default - the member of that name */
  readonly cells?: { readonly [column: string]: (item: Readonly<Record<string, unknown>>) => unknown };
  /** Question to confirm before the request, without the question mark. Without it, no confirmation is needed. */
  readonly confirm?: string;
  /** Example without `platform`. A test runs it. */
  readonly example: string;
  /** Alternative action for additional options of the command. Returns true if it handled the command. */
  readonly instead?: (options: Readonly<Record<string, unknown>>) => Promise<boolean>;
  /** Returns the error to end with after the answer is shown; `undefined` for success. */
  readonly failure?: (answer: Readonly<Record<string, unknown>>) => UsageError | undefined;
}

/** Configures a group of such commands: `platform schedule list`, `platform schedule create`, ... */
export const operations =
  (rows: readonly OperationCommand[]): Configure =>
  (command, cli) => {
    for (const row of rows) addOperation(command.command(row.name), cli, row);
  };

interface Member {
  readonly name: string;
  readonly part: 'query' | 'body';
  readonly schema: JsonSchema;
}

interface JsonSchema {
  /** A list if null is also allowed. */
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

export function addOperation(command: Command, cli: Cli, row: OperationCommand): void {
  const route = routeOf(row.operation);
  const inPath = pathArguments(route.path);
  const all = membersOf(route);
  const asArguments = (row.args ?? []).map((name) => all.find((member) => member.name === name)!);
  const asOptions = all.filter(({ name, schema }) =>
    row.options ? row.options.includes(name) : !row.args?.includes(name) && !isOtherName(schema),
  );
  command.description(row.summary ?? route.summary).addHelpText('after', `\nExample:\n  $ platform ${row.example}`);
  for (const name of inPath) command.argument(`<${labelOf(name)}>`, formsOf(name, route.path));
  for (const { name, schema } of asArguments) command.argument(`<${name.replaceAll('_', '-')}>`, helpOf(schema));
  for (const member of asOptions) for (const option of optionsOf(member, row.named)) command.addOption(option);
  if (row.isOfTenant) command.addOption(new Option('--tenant <id>', 'Your customer, to whom it belongs'));
  const hasBody = route.request?.body !== undefined && !isRaw(route.request.body);
  if (hasBody) {
    const option = new Option('--body <json>', 'Request body: JSON, @file, or - for stdin; options take precedence');
    // Commands such as `schedule enable` have a fixed body.
    command.addOption(option.hideHelp(row.bodyIsInput || (row.fixed !== undefined && asOptions.length === 0)));
    if (row.bodyIsInput) {
      const input = new Option('--input <json>', 'Input of the run: JSON, @file, or - for stdin');
      command.addOption(input.conflicts(['body']));
    }
  }
  command.action(async (...given: unknown[]) => {
    const values = given.slice(0, inPath.length + asArguments.length) as string[];
    const options: Readonly<Record<string, unknown>> = command.opts();
    if (await row.instead?.(options)) return;
    const client = await cli.clientFor(route);
    const params: Record<string, string> = {};
    if (route.path.includes('{workspace_id}')) params.workspace_id = await cli.workspaceId();
    for (const [index, name] of inPath.entries()) {
      if (name === AGENT) Object.assign(params, agentOf(values[index]!));
      else params[name] = await findId(cli, name, values[index]!, route.path);
    }
    if (row.confirm !== undefined) await cli.confirm(`${row.confirm} ${values.join(' ')}`);
    const body = (options.body ?? (row.bodyIsInput ? options.input : undefined)) as string | undefined;
    const sent: { query: Record<string, unknown>; body: Record<string, unknown> } = {
      query: {},
      body: body === undefined ? {} : ((await readJson(cli.host, body)) as Record<string, unknown>),
    };
    for (const [index, member] of asArguments.entries()) {
      sent[member.part][member.name] = await parsedValue(cli, member, values[inPath.length + index]!);
    }
    for (const member of asOptions) {
      const own = options[camel(member.name)];
      const short = row.named?.[member.name] === undefined ? undefined : options[camel(row.named[member.name]!)];
      if (own !== undefined && short !== undefined) {
        throw new UsageError(`Use either ${flagOf(row.named![member.name]!)} or ${flagOf(member.name)}, not both.`);
      }
      const value = short ?? own;
      if (value !== undefined) sent[member.part][member.name] = await parsedValue(cli, member, value);
    }
    Object.assign(hasBody ? sent.body : sent.query, row.fixed);
    const call = client[row.operation] as (args: object) => Promise<unknown>;
    const headers = typeof options.tenant === 'string' && row.isOfTenant ? { 'x-platform-tenant': options.tenant } : {};
    const answer = await call({ params, headers, query: sent.query, ...(hasBody && { body: sent.body }) });
    const { warnings = [] } = (answer ?? {}) as { readonly warnings?: readonly unknown[] };
    for (const warning of warnings) cli.output.warn(textOf(warning));
    cli.output.result(answer, (shown) => inWords(cli, row, shown));
    const next = (answer as { readonly next_cursor?: string | null } | undefined)?.next_cursor;
    if (next) cli.output.note(`Next page: add --cursor ${next}`);
    const failure = row.failure?.(answer as Record<string, unknown>);
    if (failure !== undefined) throw failure;
  });
}

/** Combined argument for the organization and name of an agent. */
const AGENT = 'org/agent';

const pathArguments = (path: string): string[] =>
  pathParameters(path)
    .filter((name) => name !== 'workspace_id' && name !== 'org')
    .map((name) => (name === 'agent' ? AGENT : name));

function agentOf(text: string): { readonly org: string; readonly agent: string } {
  const [org, agent, ...more] = text.split('/');
  if (!org || !agent || more.length > 0) throw new UsageError(`Invalid agent "${text}": expected org/agent.`);
  return { org, agent };
}

export function membersOf(route: Route): Member[] {
  const { query, body } = route.request ?? {};
  const ofPart = (part: Member['part'], type: z.ZodType | undefined): Member[] => {
    if (type === undefined) return [];
    const { properties = {} } = z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
    return Object.entries(properties).map(([name, schema]) => {
      const { description, ...rest } = withoutNull(schema);
      const path = [route.operationId, part === 'query' ? 'query' : 'request', name];
      return { name, part, schema: { ...rest, description: description ?? memberText(path) } };
    });
  };
  return [...ofPart('query', query), ...ofPart('body', body && !isRaw(body) ? body : undefined)];
}

function withoutNull(schema: JsonSchema): JsonSchema {
  if (typeof schema.type === 'object') return { ...schema, type: schema.type.find((type) => type !== 'null') };
  const other = schema.anyOf?.find(({ type }) => type !== 'null');
  return other === undefined ? schema : { description: schema.description, ...withoutNull(other) };
}

const isOtherName = ({ description = '' }: JsonSchema): boolean => /^The (same as|opposite of) /.test(description);
const labelOf = (parameter: string): string => parameter.replace(/_id$/, '').replaceAll('_', '-');
const flagOf = (name: string): string => `--${name.replaceAll('_', '-')}`;
const camel = (name: string): string => name.replaceAll(/[_-](\w)/g, (_, letter: string) => letter.toUpperCase());
/** A description for help, which has no periods after single sentences. */
const helpOf = ({ description = '' }: JsonSchema): string =>
  /\. /.test(description) ? description : description.replace(/\.$/, '');

function optionsOf({ name, schema }: Member, named: OperationCommand['named'] = {}): Option[] {
  const short = named[name];
  if (short === undefined) return optionsWith(flagOf(name), schema);
  return [
    ...optionsWith(flagOf(short), schema),
    ...optionsWith(flagOf(name), schema).map((option) => option.hideHelp()),
  ];
}

function optionsWith(flag: string, schema: JsonSchema): Option[] {
  const description = helpOf(schema);
  if (schema.type === 'boolean') {
    return [new Option(flag, description), new Option(`--no-${flag.slice(2)}`, '').default(undefined).hideHelp()];
  }
  const choices = schema.enum?.filter((choice) => choice !== null);
  // Texts of booleans in a query: the flag alone is `true`.
  if (choices?.includes('true')) {
    const option = new Option(`${flag} [boolean]`, description);
    return [option.argParser((text) => choiceOf(choices, text))];
  }
  const option = new Option(`${flag} <${placeholder(schema)}>`, description);
  return [choices ? option.choices(choices) : option];
}

function choiceOf(choices: readonly string[], text: string): string {
  if (choices.includes(text)) return text;
  throw new InvalidArgumentError('Allowed choices are true, false.');
}

const placeholder = ({ type, items, enum: choices }: JsonSchema): string => {
  if (choices) return 'value';
  if (type === 'integer' || type === 'number') return 'number';
  if (items?.type === 'string') return 'list';
  return type === 'string' ? 'text' : 'json';
};

/** Parses the text of an option or argument. Throws UsageError that names the member if the text has the wrong type. */
async function parsedValue(cli: Cli, { name, schema }: Member, given: unknown): Promise<unknown> {
  if (typeof given === 'boolean') return schema.enum ? String(given) : given;
  const text = String(given);
  if (schema.enum) return text;
  if (schema.type === 'string') return readText(cli.host, text);
  if (schema.type === 'integer' || schema.type === 'number') {
    const number = Number(text);
    if (text.trim() === '' || Number.isNaN(number))
      throw new UsageError(`Invalid ${name} "${text}": must be a number.`);
    return number;
  }
  // Lists of names, which have no commas, are written as `a,b`; all others as JSON.
  if (schema.items?.type === 'string' && !/^\s*\[|^[@-]/.test(text)) return text.split(',').map((each) => each.trim());
  return readJson(cli.host, text, name);
}

function inWords(cli: Cli, row: OperationCommand, answer: unknown): string {
  const object = answer as Record<string, unknown>;
  const list = Array.isArray(answer) ? answer : row.list === undefined ? undefined : object[row.list];
  if (Array.isArray(list)) return listInWords(cli, row, list as Record<string, unknown>[]);
  const shown = row.one === undefined ? object : (object[row.one] as Record<string, unknown>);
  return members(shown, cli.output.width);
}

function listInWords(cli: Cli, { columns, cells }: OperationCommand, list: readonly Record<string, unknown>[]): string {
  if (list.length === 0) {
    cli.output.note('No results.');
    return '';
  }
  if (typeof list[0] !== 'object') return list.map(textOf).join('\n');
  const shown = columns ?? Object.keys(list[0]!);
  const rows = list.map((item) =>
    shown.map((name) => cellOf(cli, name, cells?.[name] ? cells[name](item) : item[name])),
  );
  const titles = shown.map((name) => cli.output.style('bold', titleOf(name, list)));
  return table(titles, rows, cli.output.width);
}

/** Shorter column titles for some members. */
const TITLES: { readonly [member: string]: string } = {
  agent_name: 'agent',
  agent_version: 'version',
  trigger_source: 'trigger',
  cron_expression: 'cron',
  timezone: 'zone',
  enabled: 'on',
  last_run_status: 'last run',
  next_run_at: 'next (UTC)',
  duration_ms: 'took',
  latest_version: 'latest',
  total_runs: 'runs',
  success_rate: 'success %',
  p50_latency_ms: 'p50',
  p95_latency_ms: 'p95',
  error_message: 'error',
  external_id: 'name',
};
/** Format of the API's UTC times. Tables omit the seconds, which JSON includes. */
const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(\.\d+)?Z$/;

function titleOf(name: string, list: readonly Record<string, unknown>[]): string {
  const isTime = list.some((item) => typeof item[name] === 'string' && TIME.test(item[name]));
  return TITLES[name] ?? (isTime ? `${name.replace(/_at$/, '')} (UTC)` : name.replace(/_ms$/, '')).replaceAll('_', ' ');
}

/** The first digits of an id, as commands take them. */
export const shortId = (id: string): string => id.slice(0, id.startsWith('ses_') ? 12 : 8);

function cellOf(cli: Cli, name: string, value: unknown): string {
  if (name.endsWith('_ms')) return duration(value as number | null);
  const text = textOf(value).replace(TIME, '$1 $2');
  if (/^(id|.*_id)$/.test(name) && name !== 'external_id') return shortId(text);
  return /status|state/.test(name) ? cli.output.status(text) : text;
}
