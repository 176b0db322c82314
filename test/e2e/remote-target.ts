import type { Target } from '#test/helpers/platform.ts';

/** How errors begin of what a platform elsewhere does not offer to tests. */
export const NOT_HERE = 'not on a platform elsewhere: ';

const notHere = (what: string): never => {
  throw new Error(NOT_HERE + what);
};

/** A platform that is running, known by its address and a key of the owner of its workspace `acme` only. */
export const remoteTarget = (url: string, key: string): Target => ({
  url: url.replace(/\/+$/, ''),
  key,
  slug: 'acme',
  addUser: async () => notHere('makes users'),
  addMember: async () => notHere('makes members'),
  setPlan: async () => notHere('sets plans'),
  grantCredits: async () => notHere('grants credits'),
  fire: async () => notHere('lets schedules fire'),
  get llm() {
    return notHere('scripts a model');
  },
  interpreters: {},
  async close() {},
});
