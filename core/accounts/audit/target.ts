import type { Json } from '#core/base/json.ts';

/** What an entry tells about the thing: texts, numbers, and lists of names. */
export type Target = { readonly [member: string]: Json };

/** What an entry may tell of a request. */
export interface Asked {
  readonly params: Readonly<Record<string, string>>;
  readonly query?: unknown;
  readonly body?: unknown;
}

/**
 * Operation -> what its entries tell of query and body, beside the parameters of the path. Nothing else of a request is kept: a
 * member belongs here only if it can hold no secret and no content.
 */
export const TOLD: Readonly<Record<string, readonly string[]>> = {
  createApiKey: ['name', 'scope', 'workspace_id', 'expires_at'],
  createWorkspace: ['name', 'slug'],
  updateOrg: ['name', 'timezone'],
  updateMember: ['role'],
  inviteMember: ['email', 'role'],
  createInvite: ['email', 'role'],
  putSecret: ['name'],
  createSecret: ['name'],
  putGrant: ['version', 'secrets', 'scopes'],
  createCheckout: ['amount_cents', 'amount_usd'],
  addCredits: ['amount_cents', 'amount_usd'],
  createBudget: ['scope_type', 'scope_id', 'window', 'soft_limit_usd', 'hard_limit_usd', 'action_on_hard_limit'],
  updateBudget: ['soft_limit_usd', 'hard_limit_usd', 'action_on_hard_limit'],
  putOperatorPlan: ['plan'],
  giveOperatorCredits: ['id', 'amount_cents'],
  createAgent: ['name', 'dev'],
  updateAgent: ['is_public'],
  deleteAgent: ['mode'],
  forkAgent: ['workspace_id', 'new_name'],
  createSchedule: ['agent', 'agent_name', 'agent_id', 'agent_version', 'cron_expression', 'timezone', 'webhook'],
  updateSchedule: ['cron_expression', 'timezone', 'enabled', 'agent_version'],
  deployService: ['agent', 'agent_name', 'agent_id', 'agent_version', 'service_name', 'name', 'secret_names'],
  updateService: ['secret_names', 'desired_state', 'min_instances', 'max_instances'],
};

/** Operation -> member of an entry -> where the answer has it. */
export const MADE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  createApiKey: { id: 'id' },
  createWorkspace: { id: 'workspace.id' },
  inviteMember: { invite_id: 'invite.id' },
  createInvite: { invite_id: 'invite.id' },
  createBudget: { budget_id: 'budget.id' },
  createAgent: { id: 'agent.id', version: 'agent.version' },
  updateAgent: { name: 'name', version: 'version' },
  deleteAgent: { name: 'agent_name', versions: 'version_count' },
  forkAgent: { id: 'agent.id', name: 'agent.name', version: 'agent.version' },
  createSchedule: { schedule_id: 'schedule.id' },
  deployService: { service_id: 'service.id' },
};

/** Secrets in paths. */
const NEVER = ['token', 'secret'];
const MAX_TEXT = 200;
const MAX_NAMES = 50;

/** What the entry of a request tells of the thing that it changes. */
export function targetOf(operation: string, { params, query, body }: Asked): Target {
  const { workspace_id: _, ...named } = params;
  const given = { ...(query as object), ...(body as object) } as Record<string, unknown>;
  const told = (TOLD[operation] ?? []).map((name) => [name, given[name]] as const);
  const ofPath = Object.entries(named).filter(([name]) => !NEVER.includes(name));
  return shown([...ofPath, ...told]);
}

/** What it tells of the answer, which names what was made. */
export const madeBy = (operation: string, answer: unknown): Target =>
  shown(
    Object.entries(MADE[operation] ?? {}).map(([name, path]) => [
      name,
      // biome-ignore lint/suspicious/noExplicitAny: answers have every shape.
      path.split('.').reduce((part: any, member) => part?.[member], answer),
    ]),
  );

function shown(members: readonly (readonly [string, unknown])[]): Target {
  const target: Record<string, Json> = {};
  for (const [name, value] of members) {
    if (Array.isArray(value)) target[name] = value.slice(0, MAX_NAMES).filter(isText).map(cut);
    else if (isText(value)) target[name] = cut(value);
    else if (typeof value === 'number' || typeof value === 'boolean') target[name] = value;
  }
  return target;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const cut = (text: string): string => text.slice(0, MAX_TEXT).toWellFormed();
