import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { CardDeps } from './card.ts';
import type { Authenticate } from './follow.ts';
import type { a2aRoutes } from './routes.ts';

/** Loaded lazily to keep cold starts fast. */
const served = lazy(() => import('./serve.ts'));
const cards = lazy(() => import('./card.ts'));

export const a2aHandlers = (deps: Deps & CardDeps, authenticate: Authenticate): Handlers<typeof a2aRoutes> => ({
  async getAgentCard(incoming) {
    return (await cards()).shownCard(deps, incoming.caller, incoming);
  },
  async getCardKeys() {
    return (await cards()).shownKeys(deps);
  },
  async callA2a(incoming) {
    return (await served()).answerRpc(deps, authenticate, incoming);
  },
  async sendA2aMessage(incoming) {
    return (await served()).answerHttp(deps, authenticate, incoming, { method: 'SendMessage', hasBody: true });
  },
  async streamA2aMessage(incoming) {
    return (await served()).answerHttp(deps, authenticate, incoming, { method: 'SendStreamingMessage', hasBody: true });
  },
  async listA2aTasks(incoming) {
    return (await served()).answerHttp(deps, authenticate, incoming, { method: 'ListTasks', params: incoming.query });
  },
  async getA2aTask(incoming) {
    const [id, verb] = split(incoming.params.a2a_task);
    const method = verb === 'subscribe' ? 'SubscribeToTask' : 'GetTask';
    return (await served()).answerHttp(deps, authenticate, incoming, { method, params: { id } });
  },
  async changeA2aTask(incoming) {
    const [id, verb] = split(incoming.params.a2a_task);
    const method = verb === 'subscribe' ? 'SubscribeToTask' : verb === 'cancel' ? 'CancelTask' : 'GetTask';
    return (await served()).answerHttp(deps, authenticate, incoming, { method, params: { id } });
  },
  async createA2aPush(incoming) {
    const params = { taskId: incoming.params.a2a_task };
    const method = 'CreateTaskPushNotificationConfig';
    return (await served()).answerHttp(deps, authenticate, incoming, { method, params, hasBody: true });
  },
  async listA2aPushes(incoming) {
    const params = { taskId: incoming.params.a2a_task };
    return (await served()).answerHttp(deps, authenticate, incoming, {
      method: 'ListTaskPushNotificationConfigs',
      params,
    });
  },
  async getA2aPush(incoming) {
    const params = { taskId: incoming.params.a2a_task, id: incoming.params.a2a_push };
    return (await served()).answerHttp(deps, authenticate, incoming, {
      method: 'GetTaskPushNotificationConfig',
      params,
    });
  },
  async deleteA2aPush(incoming) {
    const params = { taskId: incoming.params.a2a_task, id: incoming.params.a2a_push };
    return (await served()).answerHttp(deps, authenticate, incoming, {
      method: 'DeleteTaskPushNotificationConfig',
      params,
    });
  },
  async getExtendedAgentCard(incoming) {
    return (await served()).answerHttp(deps, authenticate, incoming, { method: 'GetExtendedAgentCard' });
  },
});

/** A method follows the id of a task after a colon. */
const split = (segment: string): [id: string, verb: string | undefined] => {
  const [, id, verb] = /^(.*?)(?::(subscribe|cancel))?$/s.exec(segment)!;
  return [id!, verb];
};
