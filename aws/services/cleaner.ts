import * as z from 'zod';
import { liftProtection, type RemovalClients, removeAllServices } from './remove-all.ts';

/** Lambda ends a function after 15 minutes; the last one is for the response. */
const WORK_MS = 14 * 60_000;
const PROTECTION_MS = 4 * 60_000;

/**
 * Properties of the custom resources in lib/stacks/services-stack.ts and lib/constructs/service-ingress.ts; all are
 * texts.
 */
const properties = z.object({
  Cluster: z.string().optional(),
  FamilyPrefix: z.string().default(''),
  LogGroupPrefix: z.string().optional(),
  SettleSeconds: z.coerce.number().default(0),
  Gateway: z.string().optional(),
  Listener: z.string().optional(),
  Vpc: z.string().optional(),
});

interface CleanerEvent {
  readonly ResourceType: string;
  readonly ResourceProperties: object;
  readonly OldResourceProperties?: object;
}

/** Handlers of the function `services-cleaner` for CloudFormation. */
export const cleanerOf = (clients: RemovalClients) => ({
  async onDelete({ ResourceType, ResourceProperties }: CleanerEvent): Promise<void> {
    const given = properties.parse(ResourceProperties);
    const now = clients.clock.now();
    if (ResourceType === 'Custom::LiftProtection') return liftProtection(clients, given.Gateway!, now + PROTECTION_MS);
    const leftovers = {
      cluster: given.Cluster!,
      familyPrefix: given.FamilyPrefix,
      logGroupPrefix: given.LogGroupPrefix,
      gateway: given.Gateway,
      listener: given.Listener,
      vpc: given.Vpc,
      settleMs: given.SettleSeconds * 1000,
    };
    return removeAllServices(clients, leftovers, now + WORK_MS);
  },

  /** Existing services would stay connected to the former ingress and block its removal. */
  async onUpdate({ ResourceType, ResourceProperties, OldResourceProperties = {} }: CleanerEvent): Promise<void> {
    if (ResourceType === 'Custom::LiftProtection') return;
    const [now, before] = [ResourceProperties, OldResourceProperties].map((each) => properties.parse(each));
    if ((['Gateway', 'Listener', 'Vpc'] as const).every((name) => now![name] === before![name])) return;
    throw new Error(
      'how services are reached cannot be changed while there are any: delete the stack of the services first, then deploy; they are made again, with new addresses',
    );
  },
});
