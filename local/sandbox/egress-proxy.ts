import type { Socket } from 'node:net';
import type { Egress } from '#core/ports/sandbox.ts';

export interface Gateway {
  readonly host: string;
  readonly port: number;
}

export interface Registries {
  readonly env: Readonly<Record<string, string>>;
  readonly allowHosts: readonly string[];
}

export class EgressProxy {
  constructor(_options: { egress: Egress; gateway?: Gateway; registries?: Registries }) {}
  accept(socket: Socket): void {
    socket.destroy();
  }
  close(): void {}
}
