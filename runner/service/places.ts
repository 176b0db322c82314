import type { IncomingMessage, ServerResponse } from 'node:http';
import { clientOf } from '#core/accounts/limits/address.ts';
import { answerWith, GatewayError } from './gateway-error.ts';

/** Maximum number of concurrent requests and upgraded connections of an instance. */
const MAX_PLACES = 200;
/** Maximum for one address, so that no client locks out all others. */
const MAX_PLACES_OF_ADDRESS = 100;

/** Timeout from the head of a request to the first byte of its body, equal to Node's timeout for a head. */
const FIRST_BYTE_MS = 60_000;

/** Minimum transfer rate of a client while slots are scarce. Modems were faster. */
const MIN_BYTES_PER_SECOND = 500;
/** How long a client may stall while slots are scarce: at first, and after it was faster than required. */
const FIRST_PATIENCE_SECONDS = 15;
const MAX_PATIENCE_SECONDS = 120;
const CHECK_MS = 1000;

/** A request or an upgraded connection that the gateway is handling. */
export interface Occupant {
  readonly socket: { readonly bytesRead: number; readonly bytesWritten: number; readonly writableLength: number };
  /** Whether progress depends on the client sending or reading. */
  waitsForClient(): boolean;
  end(error: GatewayError): void;
}

interface Place extends Occupant {
  readonly client: string;
  bytes: number;
  patience: number;
}

/**
 * The request slots of one instance (`docs/interface/service-instances.md#places`). Each client address has a share of
 * them. Once half of them are taken, clients that are too slow lose theirs; until then a body may arrive at any rate.
 */
export class Places {
  readonly #taken = new Set<Place>();
  readonly #ofClient = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /**
   * Takes a slot for a request from `address`. Returns a function that releases it. Throws {@link GatewayError}: 429 if
   * the address has used its share, 503 if the instance has no free slot.
   */
  take(address: string, occupant: Occupant): () => void {
    const client = clientOf(address);
    const count = this.#ofClient.get(client) ?? 0;
    if (count >= MAX_PLACES_OF_ADDRESS) {
      throw new GatewayError(
        429,
        `Your address has ${MAX_PLACES_OF_ADDRESS} connections to this instance of the service, as many as one address may have at once.`,
      );
    }
    if (this.#taken.size >= MAX_PLACES) {
      throw new GatewayError(
        503,
        `The service has ${MAX_PLACES} connections, as many as an instance may have at once.`,
      );
    }
    const place: Place = { ...occupant, client, bytes: bytesOf(occupant), patience: FIRST_PATIENCE_SECONDS };
    this.#taken.add(place);
    this.#ofClient.set(client, count + 1);
    this.#timer ??= setInterval(() => this.#check(), CHECK_MS).unref();
    return () => this.#leave(place);
  }

  #leave(place: Place): void {
    if (!this.#taken.delete(place)) return;
    const left = this.#ofClient.get(place.client)! - 1;
    if (left > 0) this.#ofClient.set(place.client, left);
    else this.#ofClient.delete(place.client);
    if (this.#taken.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Ends clients that are too slow while slots are scarce. */
  #check(): void {
    for (const place of this.#taken) {
      const bytes = bytesOf(place);
      place.patience = Math.min(place.patience + (bytes - place.bytes) / MIN_BYTES_PER_SECOND, MAX_PATIENCE_SECONDS);
      place.bytes = bytes;
      if (!this.#isScarceFor(place) || !place.waitsForClient()) continue;
      place.patience -= CHECK_MS / 1000;
      if (place.patience > 0) continue;
      this.#leave(place);
      place.end(
        new GatewayError(
          408,
          `The service has many connections, and this one was slower than ${MIN_BYTES_PER_SECOND} bytes per second.`,
        ),
      );
    }
  }

  #isScarceFor({ client }: Place): boolean {
    return this.#taken.size > MAX_PLACES / 2 || this.#ofClient.get(client)! > MAX_PLACES_OF_ADDRESS / 2;
  }
}

/** Number of bytes received from the client and sent to it. */
const bytesOf = ({ socket }: Occupant): number => socket.bytesRead + socket.bytesWritten - socket.writableLength;

/** Whether a body may follow the head of a request. */
export const mayHaveBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/**
 * Calls `begin` at once, or with the first byte of the body: a request without its body holds only the client's
 * connection. It gets 408 after a minute.
 */
export function onceBodyBegins(incoming: IncomingMessage, response: ServerResponse, begin: () => void): void {
  if (!mayHaveBody(incoming)) {
    begin();
    return;
  }
  const timer = setTimeout(() => {
    incoming.off('readable', start);
    answerWith(response, new GatewayError(408, `No body arrived within ${FIRST_BYTE_MS / 1000} seconds.`));
  }, FIRST_BYTE_MS);
  const start = () => {
    clearTimeout(timer);
    if (!response.destroyed) begin();
  };
  incoming.once('readable', start);
  response.once('close', () => clearTimeout(timer));
}
