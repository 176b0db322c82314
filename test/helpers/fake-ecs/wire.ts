import { TEST_ACCOUNT, TEST_REGION } from '../aws-account.ts';

/** An error of ECS on the wire. */
export class EcsError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

export const invalid = (message: string): EcsError => new EcsError('InvalidParameterException', message);
export const client = (message: string): EcsError => new EcsError('ClientException', message);

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
export type Input = any;
export type Actions = Readonly<Record<string, (input: Input) => object>>;

export interface Tag {
  readonly key: string;
  readonly value: string;
}

export const arnOf = (rest: string): string => `arn:aws:ecs:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
/** The last part of an ARN, or the name itself. */
export const nameIn = (arnOrName: string): string => arnOrName.split('/').at(-1)!;

/** Returns the page of a list that `maxResults` and `nextToken` select. */
export function pageOf<T>(all: readonly T[], { maxResults = 100, nextToken = '0' }: Input): [T[], string | undefined] {
  const end = Number(nextToken) + maxResults;
  return [all.slice(Number(nextToken), end), end < all.length ? String(end) : undefined];
}
