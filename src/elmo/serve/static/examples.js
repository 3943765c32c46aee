// Sentences to begin with: each set has one word in several of its uses.

export const EXAMPLES = {
  bow: [
    "She took a bow in front of the audience.",
    "The actors came back to the stage for one last bow.",
    "He shot the arrow with a long wooden bow.",
    "The hunter carried a bow and a knife.",
    "She drew the bow across the strings of the violin.",
    "They stood at the bow of the ship.",
  ],
  play: [
    "The children play in the garden.",
    "They play in the street after school.",
    "She wrote a play about the war.",
    "The play was first performed in London.",
    "He made a great play in the final game.",
  ],
  bank: [
    "He put the money in the bank.",
    "The bank raised its interest rates.",
    "She works for a large bank in London.",
    "They sat on the bank of the river.",
    "The town lies on the east bank of the river.",
  ],
  spring: [
    "The flowers bloom in early spring.",
    "The season begins in spring and ends in autumn.",
    "Water flows from the spring into the lake.",
    "The river rises at a spring in the hills.",
    "The spring in the lock was broken.",
  ],
  fair: [
    "The workers asked for a fair wage.",
    "It was not a fair trial.",
    "The annual fair is held in the town square.",
    "They met at the world fair in Chicago.",
  ],
};
