import type { OutboundExchanges } from './outbound.ts';

/** The services that this platform runs, for requests of the platform itself (`docs/interface/services.md`). */
export interface OwnServices {
  /**
   * Returns how the platform reaches the running service with this name or id in a workspace, or why it cannot: a
   * predicate without a full stop.
   */
  find(workspaceId: string, service: string): Promise<OwnService | { readonly problem: string }>;
}

export interface OwnService {
  /** Address without a slash at the end. */
  readonly url: string;
  /** Sends requests to {@link url}, on the shortest way that the host has. */
  readonly exchanges: OutboundExchanges;
}
