import type { Agent } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Maximum number of connections being opened concurrently. A listening socket has a queue, of 511 entries with Node;
 * the kernel drops connections beyond it and retries them after a second.
 */
const MAX_OPENING = 200;

type Created = (error: Error | null, socket?: Socket) => void;
type Create = (options: object, created: Created) => Socket | undefined;

/**
 * Limits how many connections an agent opens concurrently. The number of open connections is unlimited: a slow model
 * holds many.
 */
export function throttleConnects<Kind extends Agent>(agent: Kind): Kind {
  const creator = agent as unknown as { createConnection: Create };
  const create = creator.createConnection.bind(agent);
  const waiting: (() => void)[] = [];
  let opening = 0;
  const open = (options: object, created: Created): Socket | undefined => {
    opening++;
    let isOpening = true;
    const settle = (): void => {
      if (!isOpening) return;
      isOpening = false;
      opening--;
      waiting.shift()?.();
    };
    try {
      const socket = create(options, created);
      socket?.once('connect', settle).once('close', settle);
      return socket;
    } catch (error) {
      settle();
      throw error;
    }
  };
  creator.createConnection = (options, created) => {
    if (opening < MAX_OPENING) return open(options, created);
    waiting.push(() => {
      try {
        created(null, open(options, created));
      } catch (error) {
        created(error as Error);
      }
    });
    return undefined;
  };
  return agent;
}
