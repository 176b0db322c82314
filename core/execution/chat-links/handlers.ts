import { isOpenTo } from '#core/agents/access.ts';
import { resolveAgent } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { refOf } from '#core/manifest/references.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { inputFromText } from '../input/text-input.ts';
import { addressOfAgent, type ChatLink, linkView } from './link.ts';
import type { chatLinkRoutes } from './routes.ts';
import { ChatLinkStore } from './store.ts';
import { usedToday } from './use.ts';

type LinkDeps = Pick<Deps, 'main' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config'>;
type Settings = Incoming<Extract<(typeof chatLinkRoutes)[number], { operationId: 'updateChatLink' }>>['body'];

const DEFAULTS = { messagesPerDay: 200, messagesPerVisitor: 50, budgetCents: 100 } as const;
const DEFAULT_DAYS = 30;
const DAY_SECONDS = 24 * 3600;

export const chatLinkHandlers = (deps: LinkDeps): Handlers<typeof chatLinkRoutes> => {
  const storeOf = ({ workspace }: Caller) => new ChatLinkStore(deps, workspace.id);
  const notFound = ({ workspace }: Caller, id: string) =>
    new PlatformError('NOT_FOUND', `The workspace "${workspace.slug}" has no valid chat link "${id.slice(0, 64)}".`);

  return {
    async createChatLink({ caller, body: { agent, kind, ...settings } }) {
      await checkAgent(deps, caller, { agent, kind, version: settings.version ?? null });
      const { link, token } = await storeOf(caller).create({
        agent,
        kind,
        title: null,
        welcome: null,
        suggestions: [],
        version: null,
        ...DEFAULTS,
        createdBy: caller.userId,
        expires: epochSeconds(deps.clock.now()) + DEFAULT_DAYS * DAY_SECONDS,
        ...changesOf(deps, settings),
      });
      const { baseUrl = '', dashboardUrl } = deps.config;
      // Without a dashboard, the link leads to the API.
      const page = dashboardUrl === undefined ? `${baseUrl}/public/chats` : `${dashboardUrl}/chat`;
      return { status: 201, body: { ...linkView(link, { messages: 0, micro: 0 }), url: `${page}/${token}` } };
    },

    async listChatLinks({ caller, query }) {
      const [links, todayOf] = await Promise.all([storeOf(caller).list(), usedToday(deps, caller.workspace.id)]);
      const shown = links.filter(({ agent }) => query.agent === undefined || query.agent === agent);
      return { status: 200, body: { chat_links: shown.map((link) => linkView(link, todayOf(link.id))) } };
    },

    async updateChatLink({ caller, params: { chat_link_id: id }, body }) {
      const store = storeOf(caller);
      if (body.version != null) {
        const before = await store.find(id);
        if (before === undefined) throw notFound(caller, id);
        await checkAgent(deps, caller, { ...before, version: body.version });
      }
      const link = await store.change(id, changesOf(deps, body));
      if (link === undefined) throw notFound(caller, id);
      const todayOf = await usedToday(deps, caller.workspace.id);
      return { status: 200, body: linkView(link, todayOf(id)) };
    },

    async revokeChatLink({ caller, params: { chat_link_id: id } }) {
      if (await storeOf(caller).revoke(id)) return { status: 200, body: { deleted: true, id } };
      throw notFound(caller, id);
    },
  };
};

function changesOf({ clock }: Pick<Deps, 'clock'>, settings: Settings): Partial<ChatLink> {
  const { title, welcome, suggestions, version, expires_in_days: days } = settings;
  const { max_messages_per_day, max_messages_per_visitor, daily_budget_usd } = settings;
  return {
    ...(title !== undefined && { title }),
    ...(welcome !== undefined && { welcome }),
    ...(suggestions !== undefined && { suggestions }),
    ...(version !== undefined && { version }),
    ...(days !== undefined && { expires: epochSeconds(clock.now()) + days * DAY_SECONDS }),
    ...(max_messages_per_day !== undefined && { messagesPerDay: max_messages_per_day }),
    ...(max_messages_per_visitor !== undefined && { messagesPerVisitor: max_messages_per_visitor }),
    ...(daily_budget_usd !== undefined && { budgetCents: Math.round(daily_budget_usd * 100) }),
  };
}

/**
 * Throws NOT_FOUND for an agent that the workspace may not call, and UNPROCESSABLE for one that visitors cannot talk to.
 */
async function checkAgent(
  deps: LinkDeps,
  { workspace }: Caller,
  link: Pick<ChatLink, 'agent' | 'version' | 'kind'>,
): Promise<void> {
  const { org, agent: name, version } = addressOfAgent(link);
  const agent = await resolveAgent(deps, org, name, version);
  if (agent === undefined || !isOpenTo(agent, workspace.id)) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name} with a version ${version}.`);
  }
  const refuse = (why: string): never => {
    throw new PlatformError('UNPROCESSABLE', `body.agent: ${refOf(agent)} ${why}, so no link can lead to it.`);
  };
  if (!engineTraits(agent).isRun) refuse('is a skill');
  if (agent.definition.run_mode === 'always_on') refuse('is always on and is not started by calls');
  if (link.kind === 'form') return;
  if (agent.definition.sessions === false) refuse('takes no sessions');
  try {
    inputFromText(agent, 'text');
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    throw new PlatformError('UNPROCESSABLE', `body.kind: ${refOf(agent)} takes more than a text, so it cannot chat.`, {
      hint: 'Make a link of the kind "form", which shows the fields of its input.',
    });
  }
}
