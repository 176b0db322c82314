import manifest from '../../package.json' with { type: 'json' };

/** Of the platform and its command line: they are released together. */
export const VERSION: string = manifest.version;
