import { PlatformError } from '#core/base/errors.ts';
import type { EndStatus, Trigger } from '#core/base/run-kinds.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { messageId, postDelivery } from '#core/outbound/deliveries.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Destination, type DestinationSettings, eventOf } from './destination.ts';
import { CALLS, RUN_END, subjectOf } from './listener.ts';
import { encoded, testMessage } from './message.ts';
import type { destinationRoutes } from './routes.ts';
import { DestinationStore, type LogEntry } from './store.ts';

type HandlerDeps = Pick<Deps, 'main' | 'vault' | 'outbound' | 'clock' | 'ids' | 'config'>;
type Operations = (typeof destinationRoutes)[number];
type Changes = Incoming<Extract<Operations, { operationId: 'updateDestination' }>>['body'];

/** All destinations are in one item, which each end of a run reads. */
const MAX_DESTINATIONS = 10;
const EXAMPLE_URL = 'https://hooks.example.com/runs';

export const destinationHandlers = (deps: HandlerDeps): Handlers<typeof destinationRoutes> => {
  const storeOf = ({ workspace }: { readonly workspace: { readonly id: string } }) =>
    new DestinationStore(deps, workspace.id);

  return {
    async listDestinations({ caller }) {
      return { status: 200, body: { destinations: (await storeOf(caller).list()).map(viewOf) } };
    },

    async createDestination({ caller, body }) {
      const now = isoTime(deps.clock.now());
      const settings = settingsOf(deps, { ...NO_FILTERS, url: body.url }, body);
      const destination = { id: deps.ids.uuid(), ...settings, disabledReason: null, createdAt: now, updatedAt: now };
      await storeOf(caller).change((destinations) => {
        if (destinations.length >= MAX_DESTINATIONS) {
          throw new PlatformError(
            'CONFLICT',
            `This workspace has ${MAX_DESTINATIONS} destinations, the maximum: delete one first.`,
          );
        }
        return [...destinations, destination];
      });
      return { status: 201, body: { destination: viewOf(destination) } };
    },

    async getDestination({ caller, params }) {
      const destination = found(await storeOf(caller).list(), params.destination_id);
      return { status: 200, body: { destination: viewOf(destination) } };
    },

    async updateDestination({ caller, params, body }) {
      const store = storeOf(caller);
      let after: Destination | undefined;
      // Forgotten first: the count of earlier failures must not disable it again at once.
      if (body.enabled) await store.forgetFailures(params.destination_id);
      await store.change((destinations) => {
        const before = found(destinations, params.destination_id);
        const updatedAt = isoTime(deps.clock.now());
        const disabledReason = body.enabled === undefined ? before.disabledReason : null;
        after = { ...before, ...settingsOf(deps, before, body), disabledReason, updatedAt };
        return destinations.map((each) => (each === before ? after! : each));
      });
      return { status: 200, body: { destination: viewOf(after!) } };
    },

    async deleteDestination({ caller, params }) {
      await storeOf(caller).change((destinations) => {
        const gone = found(destinations, params.destination_id);
        return destinations.filter((each) => each !== gone);
      });
      return { status: 200, body: { deleted: true, destination_id: params.destination_id } };
    },

    async testDestination({ caller, params }) {
      const store = storeOf(caller);
      const { id: destinationId, url, format } = found(await store.list(), params.destination_id);
      const id = deps.ids.uuid();
      const createdAt = isoTime(deps.clock.now());
      const { id: workspaceId, slug } = caller.workspace;
      const message = testMessage(workspaceId, slug, createdAt);
      const subjectId = subjectOf({ id, createdAt, destinationId });
      const encodedMessage = encoded(message, format, messageId(id));
      const result = await postDelivery(deps, {
        id,
        kind: RUN_END,
        workspaceId,
        subjectId,
        url,
        ...encodedMessage,
        tries: 1,
      });
      const problem = result.ok ? null : result.problem;
      const entry = store.logOperation(destinationId, {
        id,
        runId: null,
        event: message.event,
        status: result.ok ? 'delivered' : 'failed',
        tries: 1,
        problem,
        createdAt,
        updatedAt: isoTime(deps.clock.now()),
        nextTryAt: null,
      });
      await deps.main.transact([entry]);
      return { status: 200, body: { success: result.ok, problem } };
    },

    async listDestinationLog({ caller, params, query }) {
      const store = storeOf(caller);
      const { destination_id: id } = params;
      if (id !== CALLS) found(await store.list(), id);
      return { status: 200, body: { deliveries: (await store.listLog(id, query)).map(entryView) } };
    },
  };
};

const NO_FILTERS = {
  format: 'standard',
  enabled: true,
  events: [],
  agents: [],
  statuses: [],
  triggerSources: [],
  includeSubCalls: false,
  includeOutput: false,
} as const satisfies Omit<DestinationSettings, 'url'>;

/** Throws NOT_FOUND. */
function found(destinations: readonly Destination[], id: string): Destination {
  const destination = destinations.find((each) => each.id === id);
  if (destination === undefined) {
    throw new PlatformError('NOT_FOUND', `There is no destination "${id.slice(0, 64)}" in this workspace.`, {
      hint: 'GET /workspaces/{id}/destinations, or platform destinations list, has their ids.',
    });
  }
  return destination;
}

/** Returns the settings after a change. Throws INVALID_INPUT. */
function settingsOf({ config }: Pick<Deps, 'config'>, before: DestinationSettings, body: Changes): DestinationSettings {
  const settings: DestinationSettings = {
    url: body.url ?? before.url,
    format: body.format ?? before.format,
    enabled: body.enabled ?? before.enabled,
    events: body.events ?? before.events,
    agents: body.agents ?? before.agents,
    statuses: body.statuses ?? before.statuses,
    triggerSources: body.trigger_sources ?? before.triggerSources,
    includeSubCalls: body.include_sub_calls ?? before.includeSubCalls,
    includeOutput: body.include_output ?? before.includeOutput,
  };
  if (body.url !== undefined) checkOutboundUrl(body.url, config.outboundHosts, 'body.url', EXAMPLE_URL);
  const { events, statuses } = settings;
  const isNever = statuses.length > 0 && !statuses.some((each) => hasEvent(events, each as EndStatus));
  if (events.length > 0 && isNever) {
    throw new PlatformError(
      'INVALID_INPUT',
      `body.statuses: no run with the status ${statuses.join(' or ')} has the event ${events.join(' or ')}.`,
      {
        hint: 'run.completed is for the status completed, run.failed for the others. Leave one of the two filters out.',
      },
    );
  }
  return settings;
}

const hasEvent = (events: DestinationSettings['events'], status: EndStatus): boolean =>
  events.includes(eventOf(status));

const viewOf = (destination: Destination) => ({
  id: destination.id,
  url: destination.url,
  format: destination.format,
  enabled: destination.enabled,
  disabled_reason: destination.disabledReason,
  events: [...destination.events],
  agents: [...destination.agents],
  statuses: [...destination.statuses] as EndStatus[],
  trigger_sources: [...destination.triggerSources] as Trigger[],
  include_sub_calls: destination.includeSubCalls,
  include_output: destination.includeOutput,
  created_at: destination.createdAt,
  updated_at: destination.updatedAt,
});

const entryView = (entry: LogEntry) => ({
  id: messageId(entry.id),
  run_id: entry.runId,
  event: entry.event,
  status: entry.status,
  tries: entry.tries,
  problem: entry.problem,
  created_at: entry.createdAt,
  updated_at: entry.updatedAt,
  next_try_at: entry.nextTryAt,
});
