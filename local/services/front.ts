import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { isKey } from '#core/accounts/keys/key-format.ts';
import { isServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { isFromLoopback, isLoopbackHost } from '#core/http/loopback.ts';
import { mayUpgrade, type Via } from '#runner/service/gateway.ts';
import { answerWith, endWith, GatewayError } from '#runner/service/gateway-error.ts';
import type { ServiceInstance } from '#runner/service/instance.ts';
import type { LocalServiceHost } from './local-service-host.ts';

export interface ServiceFrontOptions {
  readonly host: Pick<LocalServiceHost, 'idOf' | 'instanceFor'>;
  /** The end of the services' host names, such as `localhost`. */
  readonly domain: string;
  /** Whether requests come through a proxy of the operator's own, whose forwarding headers are right. */
  readonly trustProxy: boolean;
  /** Whom a request counts for: a client's address, or the sandbox that it comes from. */
  clientOf(incoming: IncomingMessage): string | undefined;
}

/** A request for a service: who answers it, and how it is carried there. */
interface Addressed {
  readonly instance: ServiceInstance;
  readonly via: Via;
}

const PATH = /^\/services\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=[/?]|$)/;

/** Whether a key of a user, an agent, a run or a service is in there, as `Bearer` or as a password. */
function holdsKey(authorization: string): boolean {
  const [scheme = ''] = authorization.split(/\s/, 1);
  const credentials = authorization.slice(scheme.length).trim();
  const words = /^basic$/i.test(scheme) ? Buffer.from(credentials, 'base64').toString().split(':') : [credentials];
  return words.some((word) => isKey(word) || isServiceKey(word));
}

/**
 * Answers what is addressed to services on one machine, before the API sees it (`docs/interface/service-instances.md#address`):
 *
 * - `http://<label>.<domain>/...`: an origin of its own, so the platform's cookies never come here
 * - `/services/<id>/...` of the platform's own address, for programs that cannot resolve `*.localhost`. It has the origin of
 *   the API: it is for loopback alone and under a name of this machine, browsers are refused, and cookies and keys of the
 *   platform pass in neither direction
 */
export class ServiceFront {
  readonly #options: ServiceFrontOptions;
  #mayBeMissing = true;

  constructor(options: ServiceFrontOptions) {
    this.#options = options;
  }

  /** After a start, services are ordered anew. Until this is called, one that is not there may still come. */
  readonly isComplete = (): void => {
    this.#mayBeMissing = false;
  };

  /** Whether the request is for a service; then it is answered. */
  request(incoming: IncomingMessage, response: ServerResponse): boolean {
    try {
      const addressed = this.#addressOf(incoming);
      addressed?.instance.request(incoming, response, addressed.via);
      return addressed !== undefined;
    } catch (error) {
      answerWith(response, error);
      return true;
    }
  }

  /** Whether a request that offers to upgrade its connection is for a service, and one that is upgraded. */
  mayUpgrade(incoming: IncomingMessage): boolean {
    if (!mayUpgrade(incoming)) return false;
    return this.#labelOf(incoming) !== undefined || PATH.test(incoming.url ?? '');
  }

  /** Carries a connection that is to be upgraded. */
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    try {
      const addressed = this.#addressOf(incoming);
      if (!addressed) throw new GatewayError(404, 'No service runs at this address.');
      addressed.instance.upgrade(incoming, socket, head, addressed.via);
    } catch (error) {
      endWith(socket, error);
    }
  }

  /** Throws {@link GatewayError} for a service that is not there, and for a request that may not use a path. */
  #addressOf(incoming: IncomingMessage): Addressed | undefined {
    const label = this.#labelOf(incoming);
    if (label !== undefined) {
      return { instance: this.#instanceOf(this.#options.host.idOf(label)), via: this.#viaOf(incoming) };
    }
    const path = PATH.exec(incoming.url ?? '');
    if (!path) return undefined;
    this.#checkMayUsePath(incoming);
    const [prefix, id] = path;
    const instance = this.#instanceOf(id);
    const rest = incoming.url!.slice(prefix.length);
    incoming.url = rest.startsWith('/') ? rest : `/${rest}`;
    const hasOwnKey = (incoming.headersDistinct.authorization ?? []).some(holdsKey);
    const withheld = new Set(['cookie', 'set-cookie', ...(hasOwnKey ? ['authorization'] : [])]);
    return {
      instance,
      via: { ...this.#viaOf(incoming), prefix, withheld, answerHeaders: ['content-security-policy', 'sandbox'] },
    };
  }

  /** The part of the host name before the services' domain. */
  #labelOf({ headers }: IncomingMessage): string | undefined {
    const end = `.${this.#options.domain}`;
    const hostname = (headers.host ?? '').toLowerCase().replace(/:\d*$/, '');
    return hostname.endsWith(end) ? hostname.slice(0, -end.length) : undefined;
  }

  #instanceOf(id: string | undefined): ServiceInstance {
    const found = id === undefined ? undefined : this.#options.host.instanceFor(id);
    if (found === undefined) {
      throw this.#mayBeMissing
        ? new GatewayError(503, 'The platform has just started, and starts its services again.')
        : new GatewayError(404, 'No service runs at this address.');
    }
    if ('absence' in found) throw new GatewayError(503, found.absence);
    return found;
  }

  /**
   * A browser names the page that it asks for by `Sec-Fetch-Site` or, where it sends none, by `Origin`; a foreign name that leads
   * here (DNS rebinding) is in `Host`.
   */
  #checkMayUsePath({ socket, headers }: IncomingMessage): void {
    const { host = '', origin, 'sec-fetch-site': site } = headers;
    const isNear = isFromLoopback(socket.remoteAddress ?? '', (name) => headers[name] !== undefined);
    const isOfOtherPage = origin !== undefined && origin !== `http://${host}`;
    if (isNear && isLoopbackHost(host) && site === undefined && !isOfOtherPage) return;
    throw new GatewayError(
      403,
      'This path is for programs of the same machine, under its own name such as localhost. Use the host name of the service: GET /workspaces/{id}/services has it as service_url.',
    );
  }

  #viaOf(incoming: IncomingMessage): Via {
    const { socket, headers } = incoming;
    const own = socket.remoteAddress ?? '';
    const client = this.#options.clientOf(incoming) ?? own;
    if (!this.#options.trustProxy) return { addresses: own, client, proto: 'http' };
    const before = headers['x-forwarded-for'];
    return {
      client,
      addresses: before === undefined ? own : `${before}, ${own}`,
      proto: headers['x-forwarded-proto'] === 'https' ? 'https' : 'http',
    };
  }
}
