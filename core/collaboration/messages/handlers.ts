import type { Caller } from '#core/base/caller.ts';
import { agentNameOf } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { messageRoutes } from './routes.ts';
import { markSeen } from './seen.ts';
import { type Message, MessageStore } from './store.ts';
import { messageView } from './view.ts';

type ListRow = Extract<(typeof messageRoutes)[number], { operationId: 'listMessages' }>;

export const messageHandlers = (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): Handlers<typeof messageRoutes> => {
  const storeOf = ({ workspace }: Caller) => new MessageStore(deps, workspace.id);

  async function list({ caller, query }: Pick<Incoming<ListRow>, 'caller' | 'query'>) {
    const { limit, offset, level, agent_name: agentName } = query;
    const { messages, total } = await storeOf(caller).list({ level, agentName }, { limit, offset });
    return { status: 200, body: { messages: messages.map(messageView), total } } as const;
  }

  return {
    async sendMessage({ caller, body: { title, body, level, agent_name, metadata } }) {
      const message = await storeOf(caller).send({
        title,
        body,
        level,
        agentName: agent_name ?? (caller.agent ? agentNameOf(caller.agent) : null),
        metadata: (metadata ?? null) as Message['metadata'],
      });
      return { status: 201, body: messageView(message) };
    },

    listMessages: list,
    listWorkspaceMessages: list,

    async markMessagesSeen({ caller, body: { until } }) {
      const seen_until = await markSeen(deps, caller.workspace.id, caller.userId, Date.parse(until));
      return { status: 200, body: { seen_until } };
    },

    async deleteMessage({ caller, params: { message_id: id } }) {
      if (!(await storeOf(caller).delete(id))) {
        throw new PlatformError(
          'NOT_FOUND',
          `The workspace "${caller.workspace.slug}" has no message "${id.slice(0, 64)}".`,
        );
      }
      return { status: 200, body: { deleted: true, id } };
    },
  };
};
