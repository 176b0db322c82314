import { MICRO_PER_CENT } from '#core/billing/budgets/policy.ts';
import type { AgentAddress } from '#core/manifest/references.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { ChatKind } from './chat-kinds.ts';

/** What visitors see beside the conversation. */
export interface ChatTexts {
  readonly title: string | null;
  readonly welcome: string | null;
  /** Messages that visitors may choose to begin with. */
  readonly suggestions: readonly string[];
}

/** What the visitors of a link may use, in a UTC day. */
export interface ChatLimits {
  readonly messagesPerDay: number;
  readonly messagesPerVisitor: number;
  readonly budgetCents: number;
}

/** A link by which people without an account talk to an agent (`docs/interface/chat-links.md`). */
export interface ChatLink extends ChatTexts, ChatLimits {
  readonly id: string;
  readonly workspaceId: string;
  /** `org/name`. */
  readonly agent: string;
  /** `v3` or a channel; null for the current version at the time of each message. */
  readonly version: string | null;
  readonly kind: ChatKind;
  /** Id of the user who created it. */
  readonly createdBy: string;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** Epoch seconds, as its items expire. */
  readonly expires: number;
}

/** Tenant of all sessions and runs of a link. No caller can name it: tenants of callers contain no slash. */
export const tenantOf = ({ id }: Pick<ChatLink, 'id'>): string => `chat-link/${id}`;

export const addressOfAgent = ({ agent, version }: Pick<ChatLink, 'agent' | 'version'>): AgentAddress => {
  const [org, name] = agent.split('/') as [string, string];
  return { org, agent: name, version: version ?? 'latest' };
};

export const budgetMicro = ({ budgetCents }: Pick<ChatLink, 'budgetCents'>): number => budgetCents * MICRO_PER_CENT;

/** Shows a link to members of its workspace. */
export const linkView = (link: ChatLink, today: { readonly messages: number; readonly micro: number }) => ({
  id: link.id,
  agent: link.agent,
  version: link.version,
  kind: link.kind,
  title: link.title,
  welcome: link.welcome,
  suggestions: [...link.suggestions],
  max_messages_per_day: link.messagesPerDay,
  max_messages_per_visitor: link.messagesPerVisitor,
  daily_budget_usd: link.budgetCents / 100,
  tenant_id: tenantOf(link),
  messages_today: today.messages,
  cost_today_usd: Math.round(today.micro) / 1_000_000,
  created_by: link.createdBy,
  created_at: isoTime(link.createdAt),
  expires_at: isoTime(link.expires * 1000),
});
