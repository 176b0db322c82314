import * as z from 'zod';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';
import { KEPT_VERSION_TEXT, VERSION_TEXT_RULE } from '#core/manifest/channel-name.ts';
import { CHAT_KINDS } from './chat-kinds.ts';

const time = z.iso.datetime();
const cents = (usd: number): boolean => Math.abs(usd * 100 - Math.round(usd * 100)) < 1e-6;

const title = printableLine(120);
const welcome = z.string().min(1).max(2000);
const suggestions = z.array(z.string().min(1).max(300)).max(6);
const version = z.string().regex(KEPT_VERSION_TEXT, VERSION_TEXT_RULE);
const days = z.int().min(1).max(365);
const perDay = z.int().min(1).max(100_000);
const budget = z.number().min(0.01).max(100_000).refine(cents, 'must be a whole number of cents');

const settings = {
  title: title.nullish().describe('Heading of the page. Default: the name of the agent.'),
  welcome: welcome.nullish().describe('Text above the conversation or the form.'),
  suggestions: suggestions.optional().describe('Messages to begin with, from which visitors may choose.'),
  version: version
    .nullish()
    .describe('Version, or channel, that answers. Default: the current one at the time of each message.'),
  expires_in_days: days.optional().describe('Days, from now, for which the link is valid. Default: 30.'),
  max_messages_per_day: perDay
    .optional()
    .describe(
      'Messages of all visitors in a UTC day. Default: 200. Visitors have at most half of the calls of the plan.',
    ),
  max_messages_per_visitor: perDay.optional().describe('Messages of one visitor in a UTC day. Default: 50.'),
  daily_budget_usd: budget
    .optional()
    .describe('What the messages of a UTC day may cost, in US dollars. Those under way count, too. Default: 1.'),
};

const link = z.object({
  id: z.uuid(),
  agent: z.string().describe('`org/agent`.'),
  version: z.string().nullable().describe('Version, or channel, that answers; null for the current one.'),
  kind: z.enum(CHAT_KINDS),
  title: z.string().nullable(),
  welcome: z.string().nullable(),
  suggestions: z.array(z.string()),
  max_messages_per_day: z.int(),
  max_messages_per_visitor: z.int(),
  daily_budget_usd: z.number(),
  tenant_id: z.string().describe('Tenant of the runs and sessions of the link, for filters.'),
  messages_today: z.int().describe('Messages of this UTC day.'),
  cost_today_usd: z.number().describe('What they cost; messages under way count with what they are expected to cost.'),
  created_by: z.string(),
  created_at: time,
  expires_at: time,
});

const LINKS = '/workspaces/{workspace_id}/chat-links';
const row = { fn: 'schedules', auth: 'key' } as const;
/** What audit entries say of a link: no texts. */
const LIMITS = ['version', 'expires_in_days', 'max_messages_per_day', 'max_messages_per_visitor', 'daily_budget_usd'];

/** Chat links, as members of the workspace manage them. */
export const chatLinkRoutes = defineRoutes([
  {
    ...row,
    operationId: 'createChatLink',
    method: 'POST',
    path: LINKS,
    summary: 'Create a link by which people without an account talk to an agent',
    role: 'owner',
    audit: { request: ['agent', 'kind', ...LIMITS], response: { link_id: 'id' } },
    request: {
      body: z.strictObject({
        agent: z
          .string()
          .regex(/^[a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9-]*$/, 'must be org/agent')
          .describe('`org/agent`: of the workspace, or public.'),
        kind: z
          .enum(CHAT_KINDS)
          .default('chat')
          .describe('`chat`: a conversation. `form`: the fields of the input, and one answer.'),
        ...settings,
      }),
    },
    response: { 201: link.extend({ url: z.string().describe('The link. Only this answer shows it.') }) },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE', 'INVALID_INPUT'],
  },
  {
    ...row,
    operationId: 'listChatLinks',
    method: 'GET',
    path: LINKS,
    summary: 'List the valid chat links of the workspace, newest first',
    request: {
      query: z.object({ agent: z.string().max(200).optional().describe('Only links to this agent, `org/agent`.') }),
    },
    response: { 200: z.object({ chat_links: z.array(link) }) },
  },
  {
    ...row,
    operationId: 'updateChatLink',
    method: 'PATCH',
    path: `${LINKS}/{chat_link_id}`,
    summary: 'Change the texts, limits or expiry of a chat link',
    role: 'owner',
    audit: { request: LIMITS },
    request: { body: z.strictObject(settings) },
    response: { 200: link },
    errors: ['NOT_FOUND', 'UNPROCESSABLE', 'INVALID_INPUT'],
  },
  {
    ...row,
    operationId: 'revokeChatLink',
    method: 'DELETE',
    path: `${LINKS}/{chat_link_id}`,
    summary: 'Revoke a chat link; it stops working at once',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
]);
