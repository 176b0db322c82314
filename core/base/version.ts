import manifest from '../../package.json' with { type: 'json' };

/** Version of the platform and of its command line, which are released together. */
export const VERSION: string = manifest.version;
