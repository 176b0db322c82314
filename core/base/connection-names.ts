/** A connection `git-hub` is the secret `PLATFORM_CONNECTION_GIT_HUB` of manifests, grants and variables. */
const PREFIX = 'PLATFORM_CONNECTION_';

export const connectionSecret = (name: string): string => PREFIX + name.toUpperCase().replaceAll('-', '_');

export const isConnectionSecret = (secret: string): boolean => secret.startsWith(PREFIX);

/** Returns the name of the connection; only for a name that {@link isConnectionSecret} accepts. */
export const connectionOfSecret = (secret: string): string =>
  secret.slice(PREFIX.length).toLowerCase().replaceAll('_', '-');
