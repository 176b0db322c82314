import type { ServiceOrder, ServiceRef } from '#core/ports/service-host.ts';

/** On everything that the platform makes for a service: whose it is. */
export const tagsOf = (stage: string, { id, workspaceId }: ServiceRef): Record<string, string> => ({
  'platform:stage': stage,
  'platform:service': id,
  'platform:workspace': workspaceId,
});

/** On task definitions, and so on tasks, and on ECS services: what they follow. */
export const orderTagsOf = (stage: string, form: string, order: ServiceOrder): Record<string, string> => ({
  ...tagsOf(stage, order),
  'platform:revision': String(order.revision),
  'platform:form': form,
});

/** What tags tell about a service or a task; `undefined` for what is not the platform's. */
export interface Tagged {
  readonly serviceId: string;
  readonly workspaceId: string;
  readonly revision: number;
  /** Form of the task definition: `formOf` in `task-definitions.ts`. */
  readonly form: string;
}

export function readTags(tags: readonly { readonly key?: string; readonly value?: string }[] = []): Tagged | undefined {
  const values = new Map(tags.map(({ key, value }) => [key, value]));
  const serviceId = values.get('platform:service');
  const workspaceId = values.get('platform:workspace');
  const revision = Number(values.get('platform:revision'));
  if (serviceId === undefined || workspaceId === undefined || !Number.isSafeInteger(revision)) return undefined;
  return { serviceId, workspaceId, revision, form: values.get('platform:form') ?? '' };
}

/** As ECS takes tags. */
export const ecsTags = (tags: Record<string, string>): { key: string; value: string }[] =>
  Object.entries(tags).map(([key, value]) => ({ key, value }));
