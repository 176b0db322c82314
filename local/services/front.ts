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
  /** Domain of the services' host names, such as `localhost`. */
  readonly domain: string;
  /** Whether requests come through the operator's own proxy, whose forwarding headers are trusted. */
  readonly trustProxy: boolean;
  /** Returns the rate-limit key of a request: the client's address, or the sandbox that it comes from. */
  clientOf(incoming: IncomingMessage): string | undefined;
}

/** A request for a service, with its instance and the way it is forwarded. */
interface Addressed {
  readonly instance: ServiceInstance;
  readonly via: Via;
}

const PATH = /^\/services\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=[/?]|$)/;

/** Whether the header has a platform key (of a user, agent, run or service), as `Bearer` or as a password. */
function holdsKey(authorization: string): boolean {
  const [scheme = ''] = authorization.split(/\s/, 1);
  const credentials = authorization.slice(scheme.length).trim();
  const words = /^basic$/i.test(scheme) ? Buffer.from(credentials, 'base64').toString().split(':') : [credentials];
  return words.some((word) => isKey(word) || isServiceKey(word));
}

/**
 * Handles requests to services on one machine before the API sees them (`docs/interface/service-instances.md#address`):
 *
 * - `http://<label>.<domain>/...`: a separate origin, which never receives the platform's cookies
 * - `/services/<id>/...` on the platform's own address, for programs that cannot resolve `*.localhost`. It shares the
 * API's origin, so it works only over loopback and under a host name of this machine, browsers are rejected, and the
 * platform's cookies and keys pass in neither direction
 */
export class ServiceFront {
  readonly #options: ServiceFrontOptions;
  #mayBeMissing = true;

  constructor(options: ServiceFrontOptions) {
    this.#options = options;
  }

  /**
   * Called once all services were ordered again after a start. Until then a missing service may still arrive.
   */
  readonly isComplete = (): void => {
    this.#mayBeMissing = false;
  };

  /** Returns whether the request is for a service, in which case it is handled here. */
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

  /** Whether a request that offers an upgrade is for a service that may upgrade it. */
  mayUpgrade(incoming: IncomingMessage): boolean {
    if (!mayUpgrade(incoming)) return false;
    return this.#labelOf(incoming) !== undefined || PATH.test(incoming.url ?? '');
  }

  /** Forwards an upgrade request. */
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    try {
      const addressed = this.#addressOf(incoming);
      if (!addressed) throw new GatewayError(404, 'No service runs at this address.');
      addressed.instance.upgrade(incoming, socket, head, addressed.via);
    } catch (error) {
      endWith(socket, error);
    }
  }

  /** Throws {@link GatewayError} if the service does not exist, or the request may not use the path form. */
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

  /** Returns the part of the host name before the services' domain. */
  #labelOf({ headers }: IncomingMessage): string | undefined {
    const end = `.${this.#options.domain}`;
    const hostname = (headers.host ?? '').toLowerCase().replace(/:\d*$/, '');
    return hostname.endsWith(end) ? hostname.slice(0, -end.length) : undefined;
  }

  #instanceOf(id: string | undefined): ServiceInstance {
    const found = id === undefined ? undefined : this.#options.host.instanceFor(id);
    if (found === undefined) {
      throw this.#mayBeMissing
        ? new GatewayError(503, 'The platform has just started, and is restarting its services.')
        : new GatewayError(404, 'No service runs at this address.');
    }
    if ('absence' in found) throw new GatewayError(503, found.absence);
    return found;
  }

  /**
   * Rejects browsers and foreign host names. Browsers send `Sec-Fetch-Site` or else `Origin`; a foreign name that
   * resolves to this machine (DNS rebinding) shows in `Host`.
   */
  #checkMayUsePath({ socket, headers }: IncomingMessage): void {
    const { host = '', origin, 'sec-fetch-site': site } = headers;
    const isNear = isFromLoopback(socket.remoteAddress ?? '', (name) => headers[name] !== undefined);
    const isOfOtherPage = origin !== undefined && origin !== `http://${host}`;
    if (isNear && isLoopbackHost(host) && site === undefined && !isOfOtherPage) return;
    throw new GatewayError(
      403,
      'This path is only for programs on the same machine, under a local host name such as localhost. Use the host name of the service: it is the service_url in GET /workspaces/{id}/services.',
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
